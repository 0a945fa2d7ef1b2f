/* kube_internal.h - what the files of pkg/kube share: threads and waiting, the transport (one thread, one curl multi
 * handle), and calls (a request with its retries). Functions marked [transport] run on the transport thread only;
 * the state they touch needs no lock. */
#ifndef KUBE_INTERNAL_H
#define KUBE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "kube/client.h"

#define container_of(ptr, type, member) ((type *) (void *) ((char *) (ptr) -offsetof (type, member)))

/* ---- threads, waiting, chance (util.c) ---- */

/* A small-stacked thread that takes no signals: those are the main thread's. Aborts when none can be made. */
void kube_thread_start (pthread_t *thread, void *(*run) (void *), void *data, const char *name);
void kube_cond_init (pthread_cond_t *cond); /* counts by the monotonic clock */
/* One wait on cond, until a monotonic time at most (INT64_MAX: no bound). False when the time is up. */
bool kube_cond_wait (pthread_cond_t *cond, pthread_mutex_t *lock, int64_t until_ms);
uint64_t kube_random (void);
int64_t kube_jitter (int64_t ms);                                     /* somewhere in [ms/2, ms] */
int64_t kube_backoff (int64_t base_ms, int64_t cap_ms, int failures); /* base doubled per earlier failure, jittered */

/* The service account of a pod, below `directory`; host and port as KUBERNETES_SERVICE_HOST and _PORT (config.c). */
int kube_config_in_cluster (struct kube_config *config, const char *directory, const char *host, const char *port,
                            struct error *err);
void kube_config_copy (struct kube_config *to, const struct kube_config *from);

/* ---- transport (transport.c, transfer.c, endpoint.c) ---- */

struct transport;

/* Something to run on the transport thread. */
struct task
{
  void (*run) (struct task *task);
  struct task *next;
};

struct timer
{
  int64_t at_ms; /* monotonic */
  void (*fire) (struct timer *timer);
  bool armed;
  struct timer *prev, *next;
};

/* One HTTP exchange. The owner fills the first part, starts it, and leaves it alone until on_done or cancel. */
struct transfer
{
  enum kube_verb verb;
  const char *path; /* borrowed, as is body */
  const char *body;
  int64_t timeout_ms; /* of the whole exchange; 0: none */
  int64_t idle_ms;    /* given up when no byte comes for so long; 0: no such guard */
  size_t answer_max;  /* bytes of `answer` */
  bool metadata_only; /* see client.h */
  bool fresh;         /* not over a connection that exists already: it may be dead */
  /* [transport] Bytes of the answer as they come (status is known by then); negative gives the exchange up.
   * NULL: they are gathered in `answer`. Must not start or cancel transfers. */
  int (*on_data) (struct transfer *x, const char *bytes, size_t len);
  void (*on_open) (struct transfer *x); /* [transport] the headers are there (status is known); may be NULL */
  void (*on_done) (struct transfer *x); /* [transport] once, unless cancelled; may start transfers, x too */

  int status;  /* HTTP status; 0 when no whole answer came, then `error` says why */
  bool unsent; /* the request cannot have reached the server */
  bool timed_out;
  bool permanent;         /* trying again cannot help (a certificate that does not verify) */
  bool too_long;          /* the answer; it will not be shorter the next time */
  int64_t retry_after_ms; /* what the server asked for; 0: nothing */
  struct buf answer;      /* the owner frees it */
  char error[256];

  uint64_t token_generation;
  struct transport *transport;
  void *easy;
  void *headers;
  struct transfer *prev, *next;
};

struct transport_options
{
  const char *user_agent;
  int max_connections;
  int max_streams; /* per connection; beyond that another connection is opened */
  bool http1;      /* a connection per transfer instead, as many as it takes */
};

int transport_new (struct transport **t, const struct kube_config *config, const struct transport_options *options,
                   struct error *err);
void transport_free (struct transport *t); /* nothing may be under way any more. NULL is fine */

void transport_post (struct transport *t, struct task *task); /* any thread; tasks run in the order they came */
/* Runs fn on the transport thread and waits for it. Any thread but that one. */
void transport_run (struct transport *t, void (*fn) (void *data), void *data);

void transport_start (struct transport *t, struct transfer *x);              /* [transport] */
void transport_cancel (struct transfer *x);                                  /* [transport] no-op when not under way */
void transport_timer (struct transport *t, struct timer *timer, int64_t ms); /* [transport] fires once, ms from now */
void transport_untimer (struct transport *t, struct timer *timer);           /* [transport] */
/* [transport] After a 401: true when a newer token than the one x was sent with is at hand, so trying again makes
 * sense. */
bool transport_renew_token (struct transport *t, const struct transfer *x);

/* How every easy handle proves who we are and reaches the server (endpoint.c). */
struct endpoint
{
  struct kube_config config;
  char *base;       /* URL before the path */
  void *connect_to; /* curl_slist; NULL unless the TLS name differs from the server's address */
  char *host_header;
  bool loopback;
  char *token_header; /* "Authorization: Bearer ..."; NULL without a token */
  int64_t token_read_ms;
  struct log_trouble token_trouble;
  uint64_t token_generation;
};
int endpoint_init (struct endpoint *e, const struct kube_config *config, struct error *err);
void endpoint_free (struct endpoint *e);
void endpoint_setup (const struct endpoint *e, void *easy);
void endpoint_refresh_token (struct endpoint *e, int64_t max_age_ms);
/* Tells the transfer's easy handle the request (transfer.c). */
void transfer_setup (struct transfer *x, const struct endpoint *e);

/* ---- calls: a request, its turn, its retries, its answer (call.c) ---- */

enum
{
  KUBE_CALL_SYSTEM = 1, /* the lease's and the events': not refused after kube_client_shutdown */
  KUBE_CALL_URGENT = 2, /* does not wait for its turn */
  KUBE_CALL_ONCE = 4,   /* no retries: the caller has its own schedule */
  KUBE_CALL_FRESH = 8,  /* over a new connection */
};

enum call_state
{
  CALL_IN_LINE,
  CALL_SENT,
  CALL_PAUSED, /* between two attempts */
  CALL_DONE
};

struct kube_call;

/* Who waits for calls: signalled as each is done; done calls are taken off in the order they ended. */
struct kube_waiter
{
  pthread_cond_t cond;
  struct kube_call *done;
  uint64_t next_turn; /* transport thread only: of its next call, see call.c */
};

struct kube_call
{
  struct kube_client *client;
  const struct kube_request *request; /* borrowed until done */
  struct kube_waiter *waiter;
  unsigned flags;
  size_t index; /* the caller's */

  struct task task;
  struct timer timer; /* in line: its deadline; paused: the next attempt */
  struct transfer transfer;
  enum call_state state;
  int attempts;
  bool token_retried;
  uint64_t turn; /* its place in line, see call.c */
  int64_t deadline_ms;
  const char *given_up; /* why it ended without an answer, when not for the transfer's sake */
  struct kube_call *prev, *next;
};

void kube_waiter_init (struct kube_waiter *waiter);
void kube_waiter_destroy (struct kube_waiter *waiter);
/* Sends; `call` needs client, request, waiter and flags, the rest zero. */
void kube_call_begin (struct kube_call *call);
/* The next call of this waiter that is done, or NULL when none is by then. */
struct kube_call *kube_waiter_next (struct kube_client *client, struct kube_waiter *waiter, int64_t until_ms);
/* Ends a call that is not done yet, with status 0. Any thread but the transport's; returns when it is done. */
void kube_call_cancel (struct kube_call *call);
/* Reads the answer of a done call into *response (parsing on this thread) and frees what the call held. */
void kube_call_finish (struct kube_call *call, struct kube_response *response);
/* kube_do with flags. */
void kube_do_flags (struct kube_client *client, const struct kube_request *request, struct kube_response *response,
                    unsigned flags);
void kube_calls_end_all (struct kube_client *client); /* [transport] but the system's: the client is shut down */
void kube_calls_mind_fence (void *client);            /* [transport] ends what is fenced, now or in time */

/* ---- calls that another thread may cut short (cancel.c): the lease and the events stop promptly that way ---- */

struct kube_cancellable
{
  pthread_mutex_t lock;
  bool cancelled;
  struct kube_call *running;
};
void kube_cancellable_init (struct kube_cancellable *c);
void kube_cancellable_destroy (struct kube_cancellable *c);
void kube_cancellable_cancel (struct kube_cancellable *c); /* the running call, and every later one with this c */
void kube_cancellable_reset (struct kube_cancellable *c);
/* Sends one request and waits until `until_ms` at most; `late` is called (when not NULL) as soon as that time has
 * come, before the call is cut short. */
void kube_do_cancellable (struct kube_client *client, struct kube_cancellable *c, const struct kube_request *request,
                          struct kube_response *response, unsigned flags, int64_t until_ms, void (*late) (void *data),
                          void *late_data);

struct kube_client
{
  struct transport *transport;
  int max_in_flight;
  double qps, burst;
  atomic_bool stopping;
  struct task shutdown_task;

  pthread_mutex_t done_lock; /* guards every waiter's list */

  /* transport thread only */
  struct kube_call *line, *busy; /* `line` by turn */
  uint64_t turn;                 /* of the last call sent from the line */
  int in_flight;
  double tokens;
  int64_t tokens_at_us;
  struct timer token_timer;
  struct timer fence_timer; /* runs while a fenced call does */

  atomic_int_least64_t fence_ms;

  atomic_uint_least64_t requests[KUBE_VERB_MAX][6];
  atomic_uint_least64_t retries, throttled, watch_starts, watch_errors;
  atomic_int_least64_t in_flight_shown;
};

void kube_client_count (struct kube_client *client, const struct transfer *x); /* any thread */

#endif
