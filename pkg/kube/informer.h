/* informer.h - a mirror of one resource: paged list, then watch with bookmarks, re-list on 410 and when watches come to
 * nothing, reconnect with jittered backoff. Objects are never kept: each is handed to the owner's callbacks, one at a
 * time, and the owner keeps a digest (design §3.4). An object of more than 8 MiB of JSON is left out, as if it did not
 * exist: it is logged, and the owner is told of its removal. */
#ifndef KUBE_INFORMER_H
#define KUBE_INFORMER_H

#include "kube/client.h"

struct kube_informer;

/* Called on the transport thread, in order, one at a time per informer: be quick, do not call the client from here.
 * `resource_version` is the object's, as a number (etcd revisions are; 0 when it is not a number). */
struct kube_informer_handler
{
  void (*upsert) (void *data, const cJSON *object, uint64_t resource_version);
  void (*remove) (void *data, const cJSON *object, uint64_t resource_version);
  /* A list begins / ends: objects the owner knows that were not upserted between the two no longer exist on the server.
   * Between them `upsert` is called for every object. `resource_version` is the list's. A list that fails half-way
   * begins again: another list_begin without a list_end before it.
   * list_end says whether the list fits what the owner knew. It does not when the server has gone back to an older
   * state (etcd was restored): versions the owner has seen are then of a future that is no more, and it forgets them.
   * The list is repeated for the objects in it that seemed old. */
  void (*list_begin) (void *data);
  bool (*list_end) (void *data, uint64_t resource_version);
  /* The mirror is known to be complete up to this version (every event and bookmark). May be NULL. */
  void (*progress) (void *data, uint64_t resource_version);
  void *data;
};

struct kube_informer_options
{
  const char *path;           /* "/api/v1/pods" or "/api/v1/namespaces/x/pods" */
  const char *label_selector; /* NULL: all */
  const char *name;           /* for logs and metrics: "pods" */
  int page_size;              /* 0: 500 */
  int64_t watch_idle_ms;      /* a watch as silent as that is given up; 0: 150000, bookmarks come about once a minute */
  bool transient;             /* the handler keeps no part of an object: objects are made in scratch memory (json.h) */
};

/* Starts listing at once, on the transport thread; list_begin has been called when it returns. */
struct kube_informer *kube_informer_start (struct kube_client *client, const struct kube_informer_options *options,
                                           const struct kube_informer_handler *handler);
/* No callback runs after it returns; frees it. From any thread but the transport's. NULL is fine. */
void kube_informer_stop (struct kube_informer *informer);
/* Lists again at once: something else has shown that the server went back to an older state. From a callback of another
 * informer of the same client only. */
void kube_informer_renew (struct kube_informer *informer);
bool kube_informer_synced (const struct kube_informer *informer); /* the first list is complete */
bool kube_informer_tried (const struct kube_informer *informer);  /* the first list has come to an end, good or bad */
/* Why it is not synced or its watch is down, for readiness messages ("" when all is well). */
void kube_informer_error (const struct kube_informer *informer, struct error *err);
/* For how long list or watch have failed although the API server answers: for so long the mirror has stood still. 0:
 * they work, or the API server does not answer. */
int64_t kube_informer_trouble_ms (const struct kube_informer *informer);

#endif
