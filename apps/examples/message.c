/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A first message: Send and receive.
 *
 *     message server DEV OUR-ADDRESS/PREFIX
 *     message client DEV OUR-ADDRESS/PREFIX SERVER
 */

#include "example.h"

#define TEXT_BYTES 256

static void
server(struct example *ex)
{
	char text[TEXT_BYTES];
	struct weft_wc wc;

	/* The receive is posted before the client can send: a Send without one ends the stream. */
	example_accept(ex, text, sizeof(text) - 1, NULL, 0);
	wc = example_completion(ex);
	text[wc.len_bytes] = '\0';
	printf("received: %s\n", text);
	(void)example_event(ex, WEFT_EV_DISCONNECTED);
}

static void
client(struct example *ex, const char *host)
{
	char text[] = "hello from the other side";
	struct weft_sge sg = {.addr = text, .len_bytes = sizeof(text) - 1};
	struct weft_wr wr = {
	        .opcode = WEFT_WR_SEND, .flags = WEFT_WR_SIGNALED, .sg_list = &sg, .num_sge = 1};

	example_connect(ex, host, NULL, 0);
	MUST(weft_post_send(ex->qp, &wr, 1) == 1);
	/* The buffer is weft's until this completion, and ours again from here on. */
	(void)example_completion(ex);
	MUST(weft_disconnect(ex->qp) == 0);
	(void)example_event(ex, WEFT_EV_DISCONNECTED);
}

int
main(int argc, char **argv)
{
	struct example ex = {0};

	if (argc < 4 || (strcmp(argv[1], "server") == 0) != (argc == 4)) {
		fputs("usage: message server DEV CIDR | message client DEV CIDR SERVER\n", stderr);
		return 2;
	}
	example_open(&ex, argv[2], argv[3]);
	if (argc == 4)
		server(&ex);
	else
		client(&ex, argv[4]);
	example_close(&ex);
	return 0;
}
