/* informer_internal.h - an informer, and what it makes of the pieces of an answer. Everything on the transport thread.
 */
#ifndef KUBE_INFORMER_INTERNAL_H
#define KUBE_INFORMER_INTERNAL_H

#include "kube/informer.h"
#include "kube/kube_internal.h"

enum informer_phase
{
  PHASE_LIST,
  PHASE_WATCH
};

struct kube_informer
{
  struct kube_client *client;
  struct kube_informer_handler handler;
  char *path, *selector, *name; /* selector escaped, "" for all */
  int page_size;
  int64_t watch_idle_ms;
  bool transient;

  enum informer_phase phase;
  struct transfer transfer;
  struct timer timer; /* the next list or watch */
  char *url;          /* of the transfer */
  struct json_stream *stream;
  struct error stream_error;
  struct buf refusal; /* the body of an answer other than 200 */
  char *next_page;    /* continue token, NULL on the first page */
  bool whole_list;    /* no paging: the continue token expired under us */
  bool list_complete; /* the end of the list object was seen */
  bool gone;          /* the version we know is too old for the server */
  char *version;      /* where the watch goes on */
  int failures;       /* in a row */
  int64_t watch_started_ms;
  bool watch_moved; /* this watch has brought something */
  bool taken_anew;  /* the list is the second in a row: the first did not fit what the owner knew */

  struct log_trouble told;

  atomic_int_least64_t trouble_since_ms; /* monotonic; 0: none, or the API server does not answer at all */
  atomic_bool synced, tried;
  pthread_mutex_t lock; /* guards trouble */
  struct error trouble;
};

void informer_set_text (char **to, const char *text); /* a copy; NULL for "" */
uint64_t informer_version (const char *text);         /* 0: it is no number */

/* ---- informer_events.c ---- */

/* For json_stream: the items of a list and then the list itself; the events of a watch. */
int informer_on_list_value (void *data, cJSON *value, bool last, struct error *err);
int informer_on_watch_value (void *data, cJSON *value, bool last, struct error *err);
/* For json_stream_on_unfit: of the value there is only its beginning. */
int informer_on_unfit_item (void *data, cJSON *value, bool last, struct error *err);
int informer_on_unfit_event (void *data, cJSON *value, bool last, struct error *err);

#endif
