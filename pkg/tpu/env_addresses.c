/* env_addresses.c - TPU_PROCESS_ADDRESSES and TORCH_TPU_SLICEBUILDER_ADDRESSES: the hosts with a port for each process.
 */
#include "tpu/env_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SLICEBUILDER_PORT 8471 /* §6.1; a process per device counts up from here */

/* Suffixes ":first", ":first+1", ...; NULL when there are no such ports. */
static struct tpu_word *
port_suffixes (int64_t first, int64_t count, struct arena *arena)
{
  const size_t room = sizeof (":65535");
  struct tpu_word *words;
  char *text;

  if (first + count - 1 > TPU_PORT_MAX)
    return NULL;
  words = arena_alloc (arena, (size_t) count * sizeof (*words));
  text = arena_alloc (arena, (size_t) count * room);
  for (int64_t i = 0; i < count; i++, text += room)
    words[i] = (struct tpu_word){ .text = text,
                                  .len = (size_t) snprintf (text, room, ":%u", (unsigned) (first + i) & 0xffff) };
  return words;
}

/* The hosts that a container is to reach: the slice's, or those of a TPU_WORKER_HOSTNAMES of the user's (§6.2). NULL
 * with a warning where that is not the list of this slice (rule 9: "localhost" from a copied template is kept); an
 * empty one is a decision (§2.3) and gets none. `own` is made in the arena. */
static const struct tpu_hosts *
reachable_hosts (struct tpu_decision *d, struct tpu_hosts *own, const char *for_what, struct arena *arena)
{
  const struct tpu_env_plan *plan = d->plan;
  const cJSON *entry = tpu_env_find (d->env, "TPU_WORKER_HOSTNAMES");
  const char *list = entry ? tpu_env_literal (entry) : NULL;

  if (entry == NULL || plan->identity->hosts == 1 || (list != NULL && text_eq (list, plan->hostnames.value)))
    return &plan->hosts;
  if (list != NULL && tpu_hosts_parse (own, list, plan->identity->hosts, arena) == 0)
    return own;
  if (list == NULL || *list)
    tpu_warn (plan->warnings,
              "container %.63s keeps its own TPU_WORKER_HOSTNAMES, which is not a literal list of %" PRId64
              " hosts: %s is not injected; remove the entry to have both",
              tpu_env_container_name (d), plan->identity->hosts, for_what);
  return NULL;
}

/* ---- processes ---- */

/* Of a process with a port of the user's; -1 when that cannot be seen, 0 when it has none. */
static int64_t
users_port (const struct tpu_container *c)
{
  const cJSON *entry = tpu_env_find (json_get (c->object, "env"), "TPU_PROCESS_PORT");
  int64_t port = 0;

  return entry == NULL ? 0 : tpu_env_literal_port (entry, &port) ? port : -1;
}

/* The user's own ports by slot where they are literals (§1.1 rule 8), else 0. False when one is hidden. */
static bool
read_ports (const struct tpu_env_plan *plan, int64_t *ports)
{
  for (size_t i = 0; i < plan->containers->count; i++)
    {
      const struct tpu_container *c = &plan->containers->items[i];

      if (!c->concurrent || c->slot >= plan->identity->processes)
        continue;
      ports[c->slot] = users_port (c);
      if (ports[c->slot] < 0)
        return false;
    }
  return true;
}

static bool
is_among (int64_t port, const int64_t *ports, int64_t count)
{
  for (int64_t i = 0; i < count; i++)
    if (ports[i] == port)
      return true;
  return false;
}

static void
warn_of_shared_ports (const struct tpu_env_plan *plan, const int64_t *ports)
{
  for (int64_t i = 1; i < plan->identity->processes; i++)
    if (is_among (ports[i], ports, i))
      tpu_warn (plan->warnings,
                "two TPU containers of the Pod listen on port %" PRId64
                ": give each a TPU_PROCESS_PORT of its own, or none",
                ports[i]);
}

/* Counted up from the first one; where that is a port of the user's, the next one behind them all that is free: a
 * function of the template, so every Pod of the slice finds the same. A LeaderWorkerSet's webhook leaves them where
 * they are, and what it tells must be told here. */
static void
choose_ports (const struct tpu_env_plan *plan, int64_t *ports)
{
  const struct tpu_identity *id = plan->identity;
  int64_t first = id->process_port, spare = first + id->processes;
  int64_t *own = arena_alloc (plan->arena, (size_t) id->processes * sizeof (*own));

  memcpy (own, ports, (size_t) id->processes * sizeof (*own));
  for (int64_t slot = 0; slot < id->processes; slot++)
    {
      if (own[slot] != 0)
        continue;
      ports[slot] = first + slot;
      if (id->owner == TPU_OWNER_LWS || !is_among (first + slot, own, id->processes))
        continue;
      while (is_among (spare, own, id->processes))
        spare++;
      ports[slot] = spare++;
    }
}

/* Suffixes ":port" of the pod's processes by slot. NULL when a port is hidden, or there are none left. */
static struct tpu_word *
process_suffixes (const struct tpu_env_plan *plan)
{
  size_t count = (size_t) plan->identity->processes;
  struct tpu_word *words = arena_alloc (plan->arena, count * sizeof (*words));
  int64_t *ports = arena_alloc (plan->arena, count * sizeof (*ports));

  if (!read_ports (plan, ports))
    return NULL;
  choose_ports (plan, ports);
  warn_of_shared_ports (plan, ports);
  for (size_t i = 0; i < count; i++)
    {
      char *text = arena_printf (plan->arena, ":%" PRId64, ports[i]);

      if (ports[i] > TPU_PORT_MAX)
        return NULL;
      words[i] = (struct tpu_word){ .text = text, .len = strlen (text) };
    }
  return words;
}

/* The same for all containers of the Pod. */
static const struct tpu_word *
shared_suffixes (struct tpu_env_plan *plan)
{
  if (!plan->ports_read)
    plan->ports = process_suffixes (plan);
  plan->ports_read = true;
  return plan->ports;
}

/* Rule 12b. Not where it is not needed: a wrong count there breaks one-process-per-chip set-ups (report 24). A
 * LeaderWorkerSet's webhook does not ask for the need: what goes with its list of hosts goes with ours (§1.1 rule 9).
 */
static bool
needs_processes (const struct tpu_decision *d)
{
  const struct tpu_env_plan *plan = d->plan;
  const struct tpu_accelerator *a = plan->request->accelerator;
  const cJSON *entry = tpu_env_find (d->env, "TPU_WORKER_HOSTNAMES");

  if (plan->identity->owner == TPU_OWNER_LWS
      && (tpu_env_wants_hosts (d)
          || (entry != NULL && plan->hostnames.value != NULL
              && text_eq (tpu_env_literal (entry), plan->hostnames.value))))
    return true;
  return a != NULL && a->process_family && plan->identity->hosts > 1;
}

void
tpu_env_processes (struct tpu_decision *d)
{
  cleanup_arena struct arena scratch = { 0 };
  struct tpu_env_plan *plan = d->plan;
  const cJSON *own_port = tpu_env_find (d->env, "TPU_PROCESS_PORT");
  struct tpu_hosts own;
  const struct tpu_hosts *hosts;
  const struct tpu_word *suffixes;
  const char *value;
  int64_t port;

  if (!needs_processes (d))
    return;
  suffixes = shared_suffixes (plan); /* says, too, what is wrong with the ports there are */
  if (tpu_env_has (d, "TPU_PROCESS_ADDRESSES")
      || (own_port != NULL && (!d->container->concurrent || !tpu_env_literal_port (own_port, &port))))
    return;
  if (suffixes == NULL)
    {
      tpu_warn (plan->warnings,
                "TPU_PROCESS_ADDRESSES is not injected: TPU_PROCESS_PORT of another container of the Pod is "
                "no literal port");
      return;
    }
  hosts = reachable_hosts (d, &own, "TPU_PROCESS_ADDRESSES", &scratch);
  value = hosts ? tpu_env_join (plan, &plan->processes, hosts, suffixes, plan->identity->processes,
                                "TPU_PROCESS_ADDRESSES")
                : NULL;
  if (value == NULL)
    return;
  tpu_env_add (d, "TPU_PROCESS_ADDRESSES", value);
  if (own_port == NULL)
    tpu_env_add (d, "TPU_PROCESS_PORT", arena_printf (plan->arena, "%s", suffixes[d->container->slot].text + 1));
}

/* ---- devices ---- */

static const char *
torch_topology (const struct tpu_env_plan *plan)
{
  const struct tpu_topology *t = &plan->request->topology;
  int devices = plan->request->accelerator->devices_per_chip;
  const char *dims = arena_printf (plan->arena, "%d,%d,%d", t->dims[0], t->dims[1], t->ndims == 3 ? t->dims[2] : 1);

  return devices > 1 ? arena_printf (plan->arena, "%s,%d", dims, devices) : dims;
}

/* §6.2. A process per device of the whole pod, which the topology divides: the count is product x devices by
 * construction. Several containers share one network namespace and a multiple of these ports: upstream has no answer
 * yet (§9.5). */
void
tpu_env_torch (struct tpu_decision *d)
{
  cleanup_arena struct arena scratch = { 0 };
  struct tpu_env_plan *plan = d->plan;
  const struct tpu_request *r = plan->request;
  const struct tpu_hosts *hosts;
  struct tpu_hosts own;
  const char *value = NULL;
  int64_t devices;

  if (tpu_env_has (d, "TORCH_TPU_TOPOLOGY") || tpu_env_has (d, "TORCH_TPU_SLICEBUILDER_ADDRESSES")
      || (r->accelerator != NULL && !r->accelerator->torch_family))
    return;
  if (r->accelerator == NULL)
    tpu_env_warn_unknown (plan, "TORCH_TPU_TOPOLOGY is");
  else if (r->containers > 1)
    tpu_warn (plan->warnings,
              "TORCH_TPU_TOPOLOGY is not injected: it is defined for one TPU container, the Pod has %" PRId64,
              r->containers);
  if (r->accelerator == NULL || r->containers > 1 || r->hosts != plan->identity->hosts)
    return;
  hosts = reachable_hosts (d, &own, "TORCH_TPU_SLICEBUILDER_ADDRESSES", &scratch);
  devices = r->chips * r->accelerator->devices_per_chip;
  if (hosts != NULL)
    value = tpu_env_join (plan, &plan->slicebuilder, hosts, port_suffixes (SLICEBUILDER_PORT, devices, plan->arena),
                          devices, "TORCH_TPU_SLICEBUILDER_ADDRESSES");
  if (value == NULL)
    return;
  tpu_env_add (d, "TORCH_TPU_TOPOLOGY", torch_topology (plan));
  tpu_env_add (d, "TORCH_TPU_SLICEBUILDER_ADDRESSES", value);
}
