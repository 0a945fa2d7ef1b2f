/* places.h - which places of a group's slices are free: the book behind the allocation for Ray pods without indices.
 * Pure. What is known of a group comes from two sources: its pods, as the API server lists them, and reservations for
 * pods that are on their way. */
#ifndef ADMISSION_PLACES_H
#define ADMISSION_PLACES_H

#include <stddef.h>

#include "json/json.h"

struct place
{
  int64_t replica, host; /* slice in the group, host in the slice */
};

enum place_holder
{
  PLACE_LEAVING,  /* a pod that is being deleted or has ended: its place may be taken when no other is left */
  PLACE_RESERVED, /* a pod on its way */
  PLACE_LIVE,     /* a pod */
};

struct place_entry
{
  struct place place;
  enum place_holder holder;
  int64_t expires_ms; /* wall clock; of reservations, and of the one that a leaving pod came with */
};

/* Zero-initialise; the first two are of no account but to places_take. */
struct places
{
  int64_t hosts;    /* per slice, at least 1 */
  int64_t replicas; /* slices that the group is to have */
  struct place_entry *entries;
  size_t count, capacity;
};

void places_free (struct places *places);
#define cleanup_places __attribute__ ((cleanup (places_free)))

/* Takes note of an entry, also of one beyond a slice's hosts: who reads a book with another number of hosts must not
 * forget what is reserved under the old one. A reservation is used up when a pod is there, also when it is the one that
 * leaves: the two are told to belong together by the moment of expiry, else the reservation is that of the leaving
 * pod's successor. */
void places_note (struct places *places, struct place place, enum place_holder holder, int64_t expires_ms);

/* Whether this very reservation is in the book, and its pod is not there yet. */
bool places_hold (const struct places *places, const struct place_entry *reservation);

/* Takes the place for the next pod, as reserved until expires_ms (or a moment later, see above): a missing host of the
 * first slice that is begun, else host 0 of a new slice. So slices are completed before others are begun, and a pod
 * that takes over from another gets its place. Entries beyond the slice's hosts, left over from another topology, take
 * none. -EAGAIN when no place is left, but a reservation may yet expire; -ENOSPC
 * when all are taken by pods. */
int places_take (struct places *places, int64_t expires_ms, struct place_entry *out);

/* The reservations as text, and back: "{"0.3":1790000000000}", replica and host to expiry. What pods have taken up, and
 * what had expired at now_ms, is left out. Text that is none of ours is -EINVAL. */
char *places_print (struct places *places);
int places_read (struct places *places, const char *text, int64_t now_ms, struct error *err);

#endif
