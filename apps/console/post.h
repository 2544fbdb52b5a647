/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_CONSOLE_POST_H
#define WEFT_CONSOLE_POST_H

/**
 * @file Work requests on their way to a QP: their options, their places, lists, the chain. What the
 * commands that post have in common. Main thread.
 */

#include "console.h"

/** Arguments of a command that posts: those of every command, then the options. */
struct post_args {
	struct cmd_args c;
	cmdline_multi_string_t rest;
};

/** The options, which Tab completes. */
extern cmdline_parse_token_string_t tok_post_rest;
/** The data of an instruction whose line has options; without any it is NULL. */
extern char post_has_rest;
extern cmdline_parse_token_string_t tok_post;

/** Two instructions with one usage: without options, and `id`_rest with them. */
#define POST_CMD(id, fn_, help_, ...)                                                              \
	static const char id##_help[] = help_;                                                     \
	static cmdline_parse_inst_t id = {.f = fn_,                                                \
	                                  .data = NULL,                                            \
	                                  .help_str = id##_help,                                   \
	                                  .tokens = {(void *)&tok_post, __VA_ARGS__, NULL}};       \
	static cmdline_parse_inst_t id##_rest = {                                                  \
	        .f = fn_,                                                                          \
	        .data = &post_has_rest,                                                            \
	        .help_str = id##_help,                                                             \
	        .tokens = {(void *)&tok_post, __VA_ARGS__, (void *)&tok_post_rest, NULL}}

struct post_options {
	uint32_t flags;  /**< WEFT_WR_* */
	uint64_t times;  /**< [1] */
	bool unsignaled; /**< of several, every 16th and the last make a completion */
	bool stream;     /**< fast-register: for this QP's peer alone */
};

/** The options in the rest of a line; has_rest NULL: none. False after a message. */
bool post_options(struct cmdline *cl, const char *rest, const void *has_rest,
                  struct post_options *o);
/**
 * Post a request as often as the options say, or keep it for the chain. wr_id and flags are filled
 * in. The text of a Send is copied; Verifies and atomic operations get a place for their results.
 * Waits while there is no room. False after a message.
 */
bool post_wr(struct cmdline *cl, struct console_qp *q, struct weft_wr *wr,
             const struct post_options *o);
/**
 * A number and a place for a work request that the caller posts itself, at once. NULL after a
 * message. If it is not posted, post_cancel().
 */
struct console_wr *post_place(struct cmdline *cl, struct console_qp *q);
void post_cancel(struct console_wr *p);
/** It is posted: count it, print its number. */
void post_done(struct cmdline *cl, struct console_wr *p);
/** Whether the chain has a request that registers this region, or binds this window. */
bool post_chained(const void *mr_or_mw);
/** A range of a region as an SGE. False after a message. */
bool post_sge(struct cmdline *cl, const char *region, uint64_t off, uint64_t len,
              struct weft_sge *sge);
/** Post the chain in one call, and end it. False after a message. */
bool post_chain(struct cmdline *cl);
/** Give the requests of the chain up, and end it. */
void post_chain_drop(void);

#endif /* WEFT_CONSOLE_POST_H */
