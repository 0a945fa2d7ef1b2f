/* default_hosts.h - numOfHosts for groups whose topology says how many hosts they need and whose manifest does not. */
#ifndef RAY_DEFAULT_HOSTS_H
#define RAY_DEFAULT_HOSTS_H

#include "ray/build.h"
#include "ray/holder.h"

struct ray_defaults
{
  cJSON *patch;    /* RFC 6902 array; empty when nothing is to be set. Owned */
  cJSON *warnings; /* array of strings, one for each value set, with the numbers. Owned */
};

/* Decides for every worker group of the cluster in `object` that leaves numOfHosts out, or at 1 (which the schema makes
 * of "left out" before admission), while its topology has more hosts. Such a group is set to the hosts it needs when
 * that cannot touch a running pod: the object is new (`old` NULL), the group is new in it, or the group stored has that
 * very number, so that applying a manifest without numOfHosts again is no change. Everything else is left to
 * ray_validate, above all a number greater than 1, which somebody meant, and pods that do not take a VM of a multi-host
 * slice each. Clusters that are being deleted or managed elsewhere are left alone. Idempotent; needs no name. */
void ray_default_hosts (struct ray_defaults *out, const struct ray_holder *holder, const cJSON *object,
                        const cJSON *old, const struct ray_options *options);
void ray_defaults_free (struct ray_defaults *defaults);
#define cleanup_defaults __attribute__ ((cleanup (ray_defaults_free)))

#endif
