/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The application's appends and trims. */

#include <errno.h>

#include "log_base.h"
#include "log_priv.h"
#include "log_run.h"
#include "log_trim.h"
#include "log_window.h"

int
weft_log_append(struct weft_log *log, const struct weft_log_append *append, struct weft_log_at *at)
{
	int rc = append == NULL ? -EINVAL : log_call(log, __func__);

	if (rc < 0)
		return rc;
	log_entered(log);
	if (log->state != WEFT_LOG_OPENED)
		return log->state == WEFT_LOG_FAILED ? -EPIPE : -ENOTCONN;
	rc = log_window_append(log, LOG_RECORD, append, at);
	if (rc != 0) {
		if (log_lagging(log))
			log_later(log);
		return rc;
	}
	log->stats.appends++;
	log->stats.append_bytes += log_slot(log, log->end.seq - 1)->len_bytes;
	log_kick(log);
	return 0;
}

int
weft_log_trim(struct weft_log *log, const struct weft_log_at *keep)
{
	int rc = keep == NULL ? -EINVAL : log_call(log, __func__);

	if (rc < 0)
		return rc;
	log_entered(log);
	if (log->state != WEFT_LOG_OPENED)
		return log->state == WEFT_LOG_FAILED ? -EPIPE : -ENOTCONN;
	rc = log_trim(log, keep);
	if (rc == 0)
		log_kick(log);
	return rc;
}
