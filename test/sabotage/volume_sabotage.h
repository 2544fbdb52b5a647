/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VOLUME_SABOTAGE_H
#define VOLUME_SABOTAGE_H

/**
 * @file Deliberate faults of volumes: the tests must detect each of them. Only the copy of
 * lib/volume that test/sabotage makes has them.
 */

enum volume_sabotage {
	VOLUME_SOUND,          /**< no fault */
	VOLUME_FLUSH_EARLY,    /**< a flush is answered without the device's */
	VOLUME_FLUSH_NO_WAIT,  /**< a flush does not wait for earlier changes */
	VOLUME_NOT_DURABLE,    /**< a durable change is neither flushed nor FUA */
	VOLUME_NOT_TOLD,       /**< no client is told of a lost flush */
	VOLUME_OPEN_RANGE,     /**< a revoked operation's range is open before it is final */
	VOLUME_SNAP_NO_FLUSH,  /**< a snapshot is made without a flush before it */
	VOLUME_SNAP_NO_WAIT,   /**< a snapshot and changes do not wait for each other */
	VOLUME_SNAP_MAPS_KEPT, /**< the maps are not cleaned for a snapshot */
	VOLUME_WINDOW_EARLY,   /**< a window's flush is answered without the volume's */
	VOLUME_WINDOW_FORGETS, /**< marks that are set during a flush are lost */
	VOLUME_WINDOW_LOSES,   /**< after a failed flush no page is marked again */
	VOLUME_WINDOW_HASTY,   /**< a flush does not wait for writes that began ahead */
	VOLUME_WINDOW_MIXES,   /**< pages that are written during a flush count as flushed */
};

/** The fault of all volumes of the process. */
extern enum volume_sabotage volume_sabotage;

#endif /* VOLUME_SABOTAGE_H */
