/* SPDX-License-Identifier: BSD-3-Clause */
/** @file An example line of each command, for help. */

#include <string.h>

#include "console.h"

/** Where several begin a command's usage, the first one is its example. */
static const struct {
	const char *usage; /**< what the command's usage begins with */
	const char *example;
} examples[] = {
        {"help COMMAND", "help post write"},
        {"help", "help"},
        {"quit", "quit"},
        {"show port", "show port"},
        {"show connections", "show connections"},
        {"show qps", "show qps"},
        {"show regions", "show regions"},
        {"show counters", "show counters"},
        {"show polls", "show polls"},
        {"show drivers", "show drivers"},
        {"show events", "show events"},
        {"show logs", "show logs"},
        {"log create TARGETS", "log create 3 2"},
        {"log create", "log create"},
        {"log join LOG ADDRESS PORT STAG", "log join $log 10.0.0.2 7471 0x4d68f779 0 65536"},
        {"log join", "log join $log 10.0.0.2 7471"},
        {"log leave", "log leave $log 0"},
        {"log open", "log open $log"},
        {"log append", "log append $log the first record"},
        {"log read LOG RECORD", "log read $log 7"},
        {"log read", "log read $log"},
        {"log trim", "log trim $log $record"},
        {"log destroy", "log destroy $log"},
        {"listen PORT srq", "listen 7471 srq $srq"},
        {"connect ADDRESS PORT srq", "connect 10.0.0.2 7471 srq $srq"},
        {"listen", "listen 7471"},
        {"connect", "connect 10.0.0.2 7471"},
        {"disconnect", "disconnect $qp"},
        {"abort", "abort $qp"},
        {"terminate", "terminate $qp write"},
        {"wait until", "wait until show qps contains /qp 1: RTS/ timeout 5"},
        {"wait for", "wait for /received .*: hello/ timeout 5"},
        {"wait", "wait 5000"},
        {"sleep", "sleep 1000"},
        {"register memory BYTES RIGHTS", "register memory 65536 read,verify"},
        {"register memory", "register memory 65536"},
        {"register file PATH BYTES RIGHTS", "register file /tmp/region 65536 write,flush"},
        {"register file", "register file /tmp/region 65536"},
        {"register fast BYTES PATH", "register fast 65536 /tmp/region"},
        {"register fast", "register fast 65536"},
        {"allocate window", "allocate window"},
        {"free window", "free window $window"},
        {"show windows", "show windows"},
        {"create srq", "create srq 64"},
        {"destroy srq", "destroy srq $srq"},
        {"arm srq", "arm srq $srq 8"},
        {"post receives", "post receives $srq 64"},
        {"show srqs", "show srqs"},
        {"range add", "range add $region 0 4096 0x4d68f779 8192 verify"},
        {"range drop", "range drop"},
        {"commit QP STAG", "commit $qp 0x4d68f779 0 1"},
        {"commit QP no-word", "commit $qp no-word"},
        {"chain begin", "chain begin"},
        {"chain post", "chain post"},
        {"chain drop", "chain drop"},
        {"deregister", "deregister $region"},
        {"fill", "fill $region 0 4096 hello"},
        {"dump", "dump $region 0 64"},
        {"post send-invalidate", "post send-invalidate $qp 0x4d68f779 done"},
        {"post send", "post send $qp hello solicited"},
        {"post write-imm", "post write-imm $qp 1 0 4096 0x4d68f779 0 0x1122"},
        {"post write", "post write $qp 1 0 4096 0x4d68f779 0 x1000"},
        {"post read", "post read $qp 1 4096 64 0x4d68f779 0"},
        {"post flush", "post flush $qp 0x4d68f779 0 4096 p"},
        {"post verify", "post verify $qp 0x4d68f779 0 4096 $hash"},
        {"post atomic-write", "post atomic-write $qp 0x4d68f779 8 0x1122334455667788"},
        {"post fetch-add", "post fetch-add $qp 0x4d68f779 8 1"},
        {"post cmp-swap", "post cmp-swap $qp 0x4d68f779 8 0 1"},
        {"post masked-fetch-add", "post masked-fetch-add $qp 0x4d68f779 8 1 0x80000000"},
        {"post masked-cmp-swap", "post masked-cmp-swap $qp 0x4d68f779 8 0 1 0xff 0xff"},
        {"post fast-register", "post fast-register $qp $region 0 4096 read,write"},
        {"post bind", "post bind $qp $window $region 0 4096 read,write"},
        {"post invalidate", "post invalidate $qp $stag"},
        {"post imm", "post imm $qp 0x1122"},
        {"capture port", "capture port p0 /tmp/all.pcapng"},
        {"capture qp", "capture qp $qp p0 /tmp/one.pcapng"},
        {"capture stop", "capture stop p0"},
        {"let NAME = VALUE", "let peer = 10.0.0.2"},
        {"let NAME from", "let mulpdu from /mulpdu ([0-9]+)/ show connections"},
        {"let", "let"},
        {"source", "source lib/connect.cli"},
        {"repeat", "repeat 1000 post write $qp 1 0 64 0x4d68f779 0"},
        {"echo", "echo the peer has $qp"},
        {"show NOUN [", "show tcp detail where state=established"},
        {"show NOUN:", "show tcp"},
        {"show nouns", "show nouns"},
        {"rates NOUN [", "rates port json"},
        {"rates NOUN", "rates port"},
        {"clear NOUN", "clear port"},
        {"clear", "clear"},
        {"watch", "watch 1 x10 show tcp"},
        {"expect", "expect /verify: success/ wait 5000"},
};

const char *
console_example(const char *usage)
{
	for (unsigned int i = 0; i < sizeof(examples) / sizeof(examples[0]); i++)
		if (strncmp(usage, examples[i].usage, strlen(examples[i].usage)) == 0)
			return examples[i].example;
	return NULL;
}
