/* confirm.h - takes reservations out of the Lease when their pods are there, and the Lease away when none is left.
 * Without that a pod that is soon gone again would leave its place reserved, and its successor waiting, until the
 * reservation expires. */
#ifndef ADMISSION_CONFIRM_H
#define ADMISSION_CONFIRM_H

#include "admission/book.h"

struct confirmer;

/* Leases without reservations are discarded when nobody has written them for idle_ms. */
struct confirmer *confirmer_start (int64_t ttl_ms, int64_t idle_ms);
/* Waits for the call under way: shut the client down before. NULL is fine. */
void confirmer_stop (struct confirmer *confirmer);
/* There are new reservations in this book: it is looked at in a moment, and again until none is left and the Lease is
 * gone. From any thread. */
void confirmer_note (struct confirmer *confirmer, const struct book_of *of);

#endif
