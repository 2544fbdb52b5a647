/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_CONSOLE_H
#define WEFT_CONSOLE_H

/**
 * @file What the sources of weft-console share: the running stack, and numbered QPs and regions.
 *
 * The stack's worker runs on a thread of its own. Commands run on the main thread and use verbs as
 * any other thread does. One protection domain holds everything.
 */

#include <stdbool.h>
#include <stdint.h>

#include <cmdline_parse.h>
#include <cmdline_parse_num.h>
#include <cmdline_parse_string.h>
#include <cmdline.h>

#include "stack.h"
#include <weft/weft.h>

#define CONSOLE_MAX_QPS     64
#define CONSOLE_MAX_REGIONS 64
#define CONSOLE_RECVS       256 /**< receives posted per QP: more than a console has posted */
#define CONSOLE_RECV_BYTES  8192
#define CONSOLE_MAX_WINDOWS 64
#define CONSOLE_MAX_SRQS    8
#define CONSOLE_SRQ_DEPTH   1024 /**< most receives of an SRQ */
#define CONSOLE_MAX_LOGS    8
#define CONSOLE_MAX_RPCS    8
#define CONSOLE_ERROR_BYTES 512
#define CONSOLE_INLINE      256 /**< longest payload of a request with `inline` */
/** Work requests under way, of all QPs. */
#define CONSOLE_POSTED_MAX 128
#define CONSOLE_WRS        256 /**< places of con.wrs */

/** A shared receive queue. Its receives are posted by command only. */
struct console_srq {
	bool used;
	struct weft_srq *srq;
	uint32_t depth;
	uint32_t limit;     /**< armed last */
	uint32_t listeners; /**< that give it to the QPs that they accept */
	uint8_t *mem;       /**< depth buffers of CONSOLE_RECV_BYTES */
	bool *posted;       /**< by buffer */
};

struct console_qp {
	struct weft_qp *qp;
	bool used, up, closed;
	bool terminated; /**< a Terminate was sent or received */
	uint8_t *recv;   /**< CONSOLE_RECVS buffers; NULL with an SRQ */
	struct console_srq *srq;
	int status; /**< why there is no connection, -errno; 0 unless that is known */
	char peer[80];
	uint32_t outstanding; /**< posted and not completed, without those that are unsignaled */
	uint32_t unsignaled;  /**< posted, and no completion tells yet that they are done */
};

/** A work request under way, or in the chain. */
struct console_wr {
	struct console_qp *q; /**< NULL: the place is free */
	uint64_t id;
	bool unsignaled;
	char text[STR_TOKEN_SIZE];         /**< of a Send */
	uint8_t hash[WEFT_HASH_MAX_BYTES]; /**< result of a Verify or an atomic operation */
};

struct console_window {
	bool used;
	struct weft_mw *mw;
};

struct console_region {
	bool used;
	uint8_t *mem;
	uint64_t bytes;
	struct weft_mr *mr;
	struct weft_persist *persist; /**< NULL: ordinary memory */
	uint32_t access;
	bool fast; /**< reserved; a work request makes a part of the memory valid */
	char path[128];
};

struct console {
	struct stack stack;
	struct weft_pd *pd;
	struct weft_cq *cq; /**< of all QPs; its completions come by inbox.h */
	struct weft_evq *evq;
	struct weft_listener *listeners[16];
	unsigned int nlisteners;
	struct console_qp qps[CONSOLE_MAX_QPS + 1]; /**< by number, from 1 */
	struct console_region regions[CONSOLE_MAX_REGIONS + 1];
	struct console_window windows[CONSOLE_MAX_WINDOWS + 1];
	struct console_srq srqs[CONSOLE_MAX_SRQS + 1];
	bool logs[CONSOLE_MAX_LOGS + 1]; /**< which numbers are used; log_side.c has the logs */
	bool rpcs[CONSOLE_MAX_RPCS + 1]; /**< likewise; rpc_side.c has the clients */
	/** Numbers of workers: of what is made from now on, of each log, of each RPC client. */
	uint32_t worker, log_worker[CONSOLE_MAX_LOGS + 1], rpc_worker[CONSOLE_MAX_RPCS + 1];
	/** Appends, reads of logs and calls under way. */
	unsigned int pending;
	uint64_t next_wr;                   /**< number of the last work request */
	struct console_wr wrs[CONSOLE_WRS]; /**< by number modulo */
	unsigned int wrs_used;
	/** Work requests that `chain begin` collects, all of one QP. */
	struct {
		bool open;
		struct console_qp *q; /**< NULL: none yet */
		unsigned int n;
	} chain;
	cmdline_parse_ctx_t *commands; /**< console_commands() */
	/** tables of the commands that use the console's own stack; NULL behind the last */
	cmdline_parse_inst_t *const *const *of_stack;
	struct cmdline *prompt; /**< that prints on the terminal; NULL: a script or a pipe runs */
	bool quit;
	bool attached; /**< there is no stack: what is shown is another program's */
	bool lost;     /**< that program has ended */
	bool failed;   /**< a command has failed: a script stops, and the exit status says so */
	bool said;     /**< and a message with the script's line was printed */
	char error[CONSOLE_ERROR_BYTES]; /**< why: the last error, or completion that failed */
	/** The line that could not be run, the innermost; its command's usage is printed. */
	char misused[CONSOLE_ERROR_BYTES];
	const char *line; /**< the line that runs, the innermost; NULL: none */
	/** While `repeat` posts, work requests and their successes are counted and not printed. */
	struct {
		bool on;
		uint64_t posted, completed, begin_ns;
	} counting;
};

extern struct console con;

/** Arguments of a command that takes the rest of its line; the first members as in cmd_args. */
struct rest_args {
	cmdline_fixed_string_t verb, noun, s1, s2;
	uint64_t a;
	cmdline_multi_string_t rest;
};

extern cmdline_parse_token_num_t tok_rest_a;
extern cmdline_parse_token_string_t tok_rest;

/** Every command's arguments: words, then numbers. */
struct cmd_args {
	cmdline_fixed_string_t verb, noun, s1, s2;
	uint64_t a, b, c, d, e, f, g;
};

extern cmdline_parse_token_string_t tok_s1, tok_s2;
extern cmdline_parse_token_num_t tok_a, tok_b, tok_c, tok_d, tok_e, tok_f, tok_g;

/** The same as tok_a and tok_s1, with completion of what exists. */
extern cmdline_parse_token_num_t tok_qp, tok_region, tok_window, tok_srq;
/** In b. */
extern cmdline_parse_token_num_t tok_window_b, tok_srq_b;
/** The number of a log, in a; tok_log_rest in the a of struct rest_args. */
extern cmdline_parse_token_num_t tok_log_a, tok_log_rest;
/** The number of an RPC client, in a. */
extern cmdline_parse_token_num_t tok_rpc_a;
/** The number of a worker, in a. */
extern cmdline_parse_token_num_t tok_worker_a;
extern cmdline_parse_token_string_t tok_region_s1, tok_port_s1;

/** Define one instruction: name, function, help, then tokens. */
#define CMD(id, fn_, help_, ...)                                                                   \
	cmdline_parse_inst_t id = {                                                                \
	        .f = fn_, .data = NULL, .help_str = help_, .tokens = {__VA_ARGS__, NULL}}
#define WORD(id, field, text)                                                                      \
	static cmdline_parse_token_string_t id =                                                   \
	        TOKEN_STRING_INITIALIZER(struct cmd_args, field, text)

/** Command tables, terminated by NULL. */
extern cmdline_parse_inst_t *const cmds_show[], *const cmds_conn[], *const cmds_mem[];
extern cmdline_parse_inst_t *const cmds_post[], *const cmds_local[], *const cmds_srq[];
extern cmdline_parse_inst_t *const cmds_window[];
extern cmdline_parse_inst_t *const cmds_commit[], *const cmds_log[], *const cmds_rpc[];
extern cmdline_parse_inst_t *const cmds_terminate[], *const cmds_capture[], *const cmds_script[];
extern cmdline_parse_inst_t *const cmds_show_noun[], *const cmds_watch[], *const cmds_expect[];
extern cmdline_parse_inst_t *const cmds_traffic[], *const cmds_own_show[], *const cmds_set[];
extern cmdline_parse_inst_t *const cmds_show_capture[], *const cmds_inject[];
extern cmdline_parse_inst_t *const cmds_show_inject[];

/** An example of the command with this usage; NULL: there is none. */
const char *console_example(const char *usage);
/** Whether the command's usage is that of the command before it, so that it is printed once. */
bool console_usage_again(unsigned int i);
/** All commands, terminated by NULL. */
cmdline_parse_ctx_t *console_commands(void);

/** Print an error, at the prompt in lines that break between words, and set con.failed. */
void console_fail(struct cmdline *cl, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** The same of wrong arguments of the line that runs: its command's usage is printed, too. */
void console_wrong(struct cmdline *cl, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** The same; the usage is that of the command with these first words, the first of which the
 * message begins with. */
void console_misuse(struct cmdline *cl, const char *words, const char *why);
#define CONSOLE_NO_STACK "it needs a stack of its own, and --attach has none: it only shows"
/** False after a message, if the console is attached to another program. */
bool console_has_stack(struct cmdline *cl);
/** The numbered object, or NULL after a message. */
struct console_qp *console_qp(struct cmdline *cl, uint64_t n);
struct console_region *console_region(struct cmdline *cl, uint64_t n);
/** The same; the number is a word. */
struct console_region *console_region_named(struct cmdline *cl, const char *number);
struct console_window *console_window(struct cmdline *cl, uint64_t n);
struct console_srq *console_srq(struct cmdline *cl, uint64_t n);
/**
 * The peer's rights in a list such as "read,verify", with LOCAL_WRITE and MW_BIND. False after a
 * message, which begins with `what`.
 */
bool console_rights(struct cmdline *cl, const char *what, const char *text, uint32_t *access);
/** The names of the remote rights, each behind a blank; "" without any. */
const char *console_rights_str(uint32_t access, char buf[48]);
/** A new medium for a region: of ordinary memory, or (path not NULL) a file. False after a message.
 */
bool console_medium(struct cmdline *cl, uint64_t bytes, const char *path,
                    struct weft_persist **persist);
/**
 * Make a numbered QP with receives posted, or (srq not NULL) on an SRQ; NULL: *rc has the reason.
 */
struct console_qp *console_qp_make(struct weft_worker *w, struct console_srq *srq, int *rc);
/** Post the receive with this buffer of an SRQ. 1, or as weft_post_srq_recv(). */
int console_srq_post(struct console_srq *s, uint32_t i);
/** Free a QP and its number. */
void console_qp_drop(struct cmdline *cl, struct console_qp *q);
#define CONSOLE_WHY_MAX 256
/** Why a connect ended with -errno, and what to do. Returns buf. */
const char *console_connect_why(int err, char buf[CONSOLE_WHY_MAX]);
/**
 * Run one line. NULL, or why it could not be run, with con.misused set; con.failed says whether it
 * ran and failed. Empty
 * lines and lines that begin with # are ignored.
 */
const char *console_run(struct cmdline *cl, const char *text);
/**
 * Run a line within another command: an error is printed on cl, too. False: con.failed is set.
 */
bool console_run_within(struct cmdline *cl, const char *text);
/** The command within a line of `expect`, `repeat` or `wait until`; else the line itself. */
const char *console_inner(const char *text);
/** If a line could not be run, print on standard error the usage of the commands that begin with
 * its first word. */
void console_usage(void);
/** Print a usage on standard error; on a terminal in lines that break between words. */
void console_usage_print(const char *usage);
/** The same in one line, if the first word, of n octets, is one that takes a noun of show. */
bool console_show_usage(const char *word, size_t n);
/** Read lines from the terminal and run them, until quit or the end of input. 0; -1: no memory. */
int console_prompt(struct cmdline *cl);
/** Take the waiting events and completions and print them; returns how many. */
unsigned int console_drain(struct cmdline *cl);
/**
 * Work requests that have not completed, of all QPs, and con.pending; without those that are
 * unsignaled.
 */
unsigned int console_outstanding(void);
/**
 * Count what is posted from now on, and its completions, and print neither. False: that is so
 * already.
 */
bool console_count_begin(struct cmdline *cl);
/** Wait for the completions, unless the command has failed, and print the sum behind the verb. */
void console_count_end(struct cmdline *cl, const char *verb);
/** For console_wait(): whether there are none. */
bool console_idle(void *arg);
/** Drain until done(arg), or until ms have passed or interrupted() is true (false). */
bool console_wait(struct cmdline *cl, uint32_t ms, bool (*done)(void *arg), void *arg);
/**
 * Drain until fd is readable or at its end; drained(arg), unless it is NULL, is called each time
 * behind it. False: interrupted(), or it cannot be polled.
 */
bool console_until_readable(struct cmdline *cl, int fd, void (*drained)(void *arg), void *arg);
/** Destroy the logs. The workers still run. */
void console_logs_end(void);
/** Close and free everything. */
void console_shutdown(void);

#endif /* WEFT_CONSOLE_H */
