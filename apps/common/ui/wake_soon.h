/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_WAKE_SOON_H
#define WEFT_APPS_WAKE_SOON_H

/** @file A thread that sleeps for short times beside threads that spin. */

/**
 * Have the kernel run the calling thread soon when it wakes: its timers are exact to a microsecond,
 * not to the default of 50, and it asks for short time slices, which Linux 6.12 and later runs
 * before long ones. Without that all works, only later.
 */
void wake_soon(void);

#endif /* WEFT_APPS_WAKE_SOON_H */
