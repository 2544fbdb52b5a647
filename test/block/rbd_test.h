/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RBD_TEST_H
#define RBD_TEST_H

/** @file Shared by the tests of the block driver "rbd" with rbd_fake.c in the place of weft-rbd. */

/** Have the driver start rbd_fake.c, whose images lie in `folder`. */
void rbd_fake_folder(const char *folder);
/** Have it start the weft-rbd of this build, and no other. */
void rbd_real(void);
/** The faults of the next process that is started; NULL: none. */
void rbd_fake_faults(const char *faults);

#endif /* RBD_TEST_H */
