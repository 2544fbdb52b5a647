/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_VOLUME_SNAP_H
#define WEFT_APPS_TARGET_VOLUME_SNAP_H

/** @file Snapshots and clones of volumes: procedures of version 2 of the export program. */

struct weft_rpc_req;

void target_vserve_snapshot(void *user, struct weft_rpc_req *req, void *args, void *res);
void target_vserve_snapshots(void *user, struct weft_rpc_req *req, void *args, void *res);
void target_vserve_unsnapshot(void *user, struct weft_rpc_req *req, void *args, void *res);
void target_vserve_clone(void *user, struct weft_rpc_req *req, void *args, void *res);

#endif /* WEFT_APPS_TARGET_VOLUME_SNAP_H */
