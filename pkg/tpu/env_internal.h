/* env_internal.h - what the files that decide about the environment share: a plan per pod, a decision per container. */
#ifndef TPU_ENV_INTERNAL_H
#define TPU_ENV_INTERNAL_H

#include "tpu/tpu_internal.h"

#define TPU_ENV_ENTRIES_MAX 16
#define TPU_PORT_MAX 65535
/* Of all entries of a Pod together. etcd stores no object beyond 1.5 MiB, and the Pod has parts of its own. */
#define TPU_ENV_TOTAL_MAX (1024 * 1024)

struct tpu_entry
{
  const char *name, *value;
  const char *field; /* fieldRef instead of a value */
};

/* A joined list that is the same for all containers and long enough to be made only once. */
struct tpu_once
{
  bool made;
  const char *value;
};

struct tpu_env_plan
{
  const struct tpu_request *request;
  const struct tpu_identity *identity;
  const struct tpu_containers *containers;
  struct arena *arena;
  cJSON *warnings;
  struct tpu_hosts hosts;
  struct tpu_once hostnames, processes, slicebuilder;
  const struct tpu_word *ports; /* ":port" of each process of a host, NULL when one is hidden; valid when ports_read */
  bool ports_read;
};

struct tpu_decision
{
  struct tpu_env_plan *plan;
  const struct tpu_container *container;
  cJSON *env; /* the user's entries that have a say, as references: of the others there may be very many. Owned */
  struct tpu_entry entries[TPU_ENV_ENTRIES_MAX];
  size_t count;
};

/* ---- env.c: the user's entries, and ours ---- */

const cJSON *tpu_env_find (const cJSON *env, const char *name); /* the last one counts, as it does for the kubelet */
bool tpu_env_has (const struct tpu_decision *d, const char *name);
/* What the entry says, "" when it says nothing, NULL when it cannot be seen from here. */
const char *tpu_env_literal (const cJSON *entry);
bool tpu_env_literal_port (const cJSON *entry, int64_t *port);
/* Of MEGASCALE_NUM_SLICES: false when it is a literal that is no number of slices. 0: it is none that can be seen. */
bool tpu_env_slices (const struct tpu_decision *d, int64_t *slices); /* env_megascale.c */
void tpu_env_add (struct tpu_decision *d, const char *name, const char *value);
/* "TPU_X is" or "TPU_X are" not injected, because the accelerator is not known. */
void tpu_env_warn_unknown (const struct tpu_env_plan *plan, const char *what);
const char *tpu_env_container_name (const struct tpu_decision *d);

/* ---- decisions, one function per variable or family ---- */

void tpu_env_megascale (struct tpu_decision *d); /* env_megascale.c */
void tpu_env_hostnames (struct tpu_decision *d); /* env_hosts.c */
void tpu_env_processes (struct tpu_decision *d); /* env_addresses.c */
void tpu_env_torch (struct tpu_decision *d);     /* env_addresses.c */
void tpu_env_worker_id (struct tpu_decision *d); /* env_hosts.c */

/* Whether the container is told TPU_WORKER_HOSTNAMES and TPU_WORKER_ID. */
bool tpu_env_wants_hosts (const struct tpu_decision *d); /* env_hosts.c */
int64_t tpu_env_own_id (const struct tpu_decision *d);   /* env_hosts.c: its TPU_WORKER_ID */
/* The lists that every container shares. */
void tpu_env_name_hosts (struct tpu_env_plan *plan); /* env_hosts.c */
/* Joins hosts with suffixes; the slice's own hosts only once. NULL with a warning when that is too long. */
const char *tpu_env_join (struct tpu_env_plan *plan, struct tpu_once *once, const struct tpu_hosts *hosts,
                          const struct tpu_word *suffixes, int64_t nsuffixes, const char *name); /* env_hosts.c */

/* ---- env_check.c ---- */

/* Warns of entries of the user's that stay, but that cannot be meant so. `place`: the container has one in the slice.
 */
void tpu_env_check (const struct tpu_decision *d, bool place);

#endif
