/* book.h - the places of one worker group as the API server has them, for as long as it takes to read and write them.
 */
#ifndef ADMISSION_BOOK_H
#define ADMISSION_BOOK_H

#include "admission/places.h"
#include "kube/client.h"
#include "tpu/tpu.h"

/* Whose book. Texts are the caller's. */
struct book_of
{
  struct kube_client *client;
  const char *lease_namespace, *name; /* the Lease */
  const char *namespace, *cluster, *group;
  const char *owner_uid; /* of the RayCluster, as the Pod's owner reference has it */
};

struct book
{
  struct book_of of;
  int64_t deadline_ms; /* monotonic */
  char *path;          /* of the Lease */
  cJSON *lease;        /* as read, NULL: there is none */
  size_t reserved;     /* reservations in it that have not expired */
  struct places places;
  char nonce[17];
};

void book_open (struct book *b, const struct book_of *of, int64_t deadline_ms);
void book_free (struct book *b);
#define cleanup_book __attribute__ ((cleanup (book_free)))

/* Reads of the RayCluster how many slices the group is to have, and of how many hosts: what its template says, which is
 * the same for all pods, never what one pod says. -ENOENT with a sentence when the Pod is not its: no
 * such RayCluster, another one by now, or without that group; else as book_read. */
int book_find_group (struct book *b, const struct tpu_options *options, struct error *err);
/* The place that a pod says it has: by its index labels, else by the annotations that it got with its reservation,
 * which expires at expires_ms. Indices are -1 where it says none. */
struct place_entry book_place_of (const cJSON *pod);
/* Reads the Lease, then the pods, in this order: a reservation that somebody takes out of the Lease is that of a pod
 * which the list then has. 0; -EAGAIN when trying again may help; another -errno when it will not. */
int book_read (struct book *b, struct error *err);
/* After book_read has read the Lease again: what is there is what this book has written, though its writing seemed to
 * have failed. The places are then those of before. */
bool book_is_ours (const struct book *b);
size_t book_reserved (const struct book *b); /* reservations that are not used up */

/* Writes the reservations, under the version that was read: 1 when somebody else has written meanwhile. */
int book_write (struct book *b, struct error *err);

/* An owner reference to the RayCluster would have the garbage collector delete the Lease, but it must not cross
 * namespaces. So a Lease goes when it holds no reservation, and was not written for `idle_ms`. That has to be longer
 * than a writer may take from its reading to its writing (ADMISSION_PLACE_TIMEOUT_MS): one that has seen no Lease must
 * find the one that was made meanwhile. */

/* The book's own, as it was read. True when it is gone. */
bool book_discard (struct book *b, int64_t idle_ms);
/* Those that other replicas have left behind. For who has made a new one, so that there are never many more than groups
 * in use. Its failure is nobody's. */
void book_sweep (struct book *b, int64_t idle_ms);

#endif
