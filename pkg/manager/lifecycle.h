/* lifecycle.h - the running process, shared by manager.c (start, stop) and health.c (is it well, what has it done). */
#ifndef MANAGER_LIFECYCLE_H
#define MANAGER_LIFECYCLE_H

#include "manager/manager_internal.h"

#define HEALTH_ROUTES 2

struct manager
{
  const struct manager_options *options;
  int64_t start_us, start_ms; /* monotonic, wall clock */
  char *identity;

  struct ray_options ray;
  struct admission_policy policy;
  struct admission_route routes[ROUTE_MAX];

  struct kube_config config;
  struct kube_client *client; /* NULL without API access, as are the next four */
  struct kube_events *events;
  struct controller *controller;
  struct kube_lease *lease;
  struct rivals *rivals;
  struct certs *certs; /* NULL without webhook, as is the next */
  struct admission_server *server;
  struct kube_client *bulk_client; /* HTTP/1.1: lists and watches, whose large answers stall over HTTP/2 */
  struct status_server *status;
  struct status_route health_routes[HEALTH_ROUTES], metrics_route;
  struct status_route all_routes[HEALTH_ROUTES + 1];

  /* Held while the parts above are asked, and to say from when to when they may be; guards what follows. */
  pthread_mutex_t parts_lock;
  bool running, stopped;
  int64_t probed_ms; /* the last look at our own listener */
  bool probe_ok;
  struct error probe_error;

  pthread_mutex_t leader_lock; /* guards the next two, and who tells the controller to begin and end */
  bool leader, stopping;

  bool was_ready_once, slow_start_said; /* main's */
};

/* ---- health.c ---- */

int health_start (struct manager *m, struct error *err);
/* All checks of /readyz; why is the first that fails. */
bool health_ready (struct manager *m, struct error *why);

#endif
