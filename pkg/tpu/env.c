/* env.c - what each container is told (§6.2, §8.2): decided as plain entries first, then written as a patch. */
#include "tpu/tpu_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SLICEBUILDER_PORT 8471 /* §6.1; a process per device counts up from here */
#define MEGASCALE_PORT 8081    /* 8080 is Ray's metrics port (§2.5) */
#define PORT_MAX 65535
#define ENTRIES_MAX 16

struct entry
{
  const char *name, *value;
  const char *field; /* fieldRef instead of a value */
};

/* A joined list that is the same for all containers and long enough to be made only once. */
struct once
{
  bool made;
  const char *value;
};

struct plan
{
  const struct tpu_request *request;
  const struct tpu_identity *identity;
  const struct tpu_containers *containers;
  struct arena *arena;
  cJSON *warnings;
  struct tpu_hosts hosts;
  struct once hostnames, processes, slicebuilder;
};

struct decision
{
  struct plan *plan;
  const struct tpu_container *container;
  const cJSON *env; /* the user's */
  struct entry entries[ENTRIES_MAX];
  size_t count;
};

/* ---- the user's entries ---- */

/* The last one counts, as it does for the kubelet. */
static const cJSON *
find_entry (const cJSON *env, const char *name)
{
  const cJSON *entry, *found = NULL;

  if (cJSON_IsArray (env))
    cJSON_ArrayForEach (entry, env)
      if (text_eq (json_str (entry, "name"), name))
        found = entry;
  return found;
}

static bool
has (const struct decision *d, const char *name)
{
  return find_entry (d->env, name) != NULL;
}

/* What the entry says, "" when it says nothing, NULL when it cannot be seen from here. */
static const char *
literal (const cJSON *entry)
{
  const cJSON *from = json_get (entry, "valueFrom");

  return from != NULL && !cJSON_IsNull (from) ? NULL : log_nonnull (json_str (entry, "value"));
}

static bool
literal_port (const cJSON *entry, int64_t *port)
{
  const char *text = literal (entry);

  return text != NULL && text_to_int (text, 1, PORT_MAX, port) == 0;
}

/* ---- building blocks ---- */

static void
add (struct decision *d, const char *name, const char *value)
{
  d->entries[d->count++] = (struct entry){ .name = name, .value = value };
}

static const char *
container_name (const struct decision *d)
{
  return log_nonnull (json_str (d->container->object, "name"));
}

static void
warn_too_long (struct plan *plan, const char *name)
{
  tpu_warn (plan->warnings,
            "%s is not injected: for %" PRId64 " hosts it is longer than the 128 KiB that Linux allows a variable",
            name, plan->identity->hosts);
}

/* Suffixes ":first", ":first+1", ...; NULL when there are no such ports. */
static struct tpu_word *
port_suffixes (int64_t first, int64_t count, struct arena *arena)
{
  const size_t room = sizeof (":65535");
  struct tpu_word *words;
  char *text;

  if (first + count - 1 > PORT_MAX)
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
 * empty one is a decision (§2.3) and gets none. */
static const struct tpu_hosts *
reachable_hosts (struct decision *d, struct tpu_hosts *own, const char *for_what)
{
  const struct plan *plan = d->plan;
  const cJSON *entry = find_entry (d->env, "TPU_WORKER_HOSTNAMES");
  const char *list = entry ? literal (entry) : NULL;

  if (entry == NULL || plan->identity->hosts == 1 || (list != NULL && text_eq (list, plan->hostnames.value)))
    return &plan->hosts;
  if (list != NULL && tpu_hosts_parse (own, list, plan->identity->hosts, plan->arena) == 0)
    return own;
  if (list == NULL || *list)
    tpu_warn (plan->warnings,
              "container %.63s keeps its own TPU_WORKER_HOSTNAMES, which is not a literal list of %" PRId64
              " hosts: %s is not injected; remove the entry to have both",
              container_name (d), plan->identity->hosts, for_what);
  return NULL;
}

/* Joins hosts with suffixes; the slice's own hosts only once. NULL with a warning when that is too long. */
static const char *
join_hosts (struct plan *plan, struct once *once, const struct tpu_hosts *hosts, const struct tpu_word *suffixes,
            int64_t nsuffixes, const char *name)
{
  const char *value;

  if (hosts == &plan->hosts && once->made)
    return once->value;
  value = suffixes ? tpu_hosts_join (hosts, suffixes, (size_t) nsuffixes, name, plan->arena) : NULL;
  if (value == NULL)
    warn_too_long (plan, name);
  if (hosts == &plan->hosts)
    *once = (struct once){ .made = true, .value = value };
  return value;
}

/* ---- one function per variable or family, in the order in which they are written ---- */

/* tpu7x runs several processes per host, hence the ports there; older ones have none (§2.5). */
static void
add_coordinator (struct decision *d, bool own_port, bool needs_port)
{
  const struct plan *plan = d->plan;
  const char *address = plan->identity->coordinator;
  bool ports = plan->request->accelerator != NULL && plan->request->accelerator->process_family;

  add (d, "MEGASCALE_SLICE_ID", arena_printf (plan->arena, "%" PRId64, plan->identity->replica));
  add (d, "MEGASCALE_COORDINATOR_ADDRESS",
       ports && !own_port ? arena_printf (plan->arena, "%s:%d", address, MEGASCALE_PORT) : address);
  if (!own_port && (ports || needs_port))
    add (d, "MEGASCALE_PORT",
         arena_printf (plan->arena, "%" PRId64, MEGASCALE_PORT + (ports ? d->container->slot : 0)));
}

/* Only where the user says how many slices there are: Ray's trainers set these themselves (§5.4, rule 13). */
static void
add_ray_megascale (struct decision *d)
{
  const struct tpu_identity *id = d->plan->identity;
  const cJSON *entry = find_entry (d->env, "MEGASCALE_NUM_SLICES");
  const char *slices = entry ? literal (entry) : "";
  int64_t count;

  if ((slices != NULL && *slices == '\0') || has (d, "MEGASCALE_SLICE_ID") || has (d, "MEGASCALE_COORDINATOR_ADDRESS"))
    return;
  if (id->coordinator == NULL || !text_is_dns1123_subdomain (id->coordinator)
      || (slices != NULL && text_to_int (slices, 1, INT32_MAX, &count) == 0 && id->replica >= count))
    {
      tpu_warn (d->plan->warnings,
                "MEGASCALE_NUM_SLICES is set, but MEGASCALE_SLICE_ID is not injected: replica index %" PRId64
                " is not one of its slices",
                id->replica);
      return;
    }
  add_coordinator (d, has (d, "MEGASCALE_PORT"), true);
}

/* A JobSet declares its slices; live ones are never counted (report 21). Any entry of the user's says that the user
 * decides, as Pathways does, whose coordinator is the head (§3.3). Multislice is between multi-host slices, not v3's
 * (§2.3). */
static void
add_jobset_megascale (struct decision *d)
{
  static const char *const names[]
      = { "MEGASCALE_NUM_SLICES", "MEGASCALE_SLICE_ID", "MEGASCALE_COORDINATOR_ADDRESS", "MEGASCALE_PORT" };
  const struct tpu_identity *id = d->plan->identity;
  const struct tpu_accelerator *a = d->plan->request->accelerator;

  for (size_t i = 0; i < ARRAY_LEN (names); i++)
    if (has (d, names[i]))
      return;
  if (id->slices < 2 || id->hosts < 2 || a == NULL || !a->multislice)
    return;
  if (id->replica >= id->slices || !text_is_dns1123_subdomain (id->coordinator))
    {
      tpu_warn (d->plan->warnings,
                "MEGASCALE_SLICE_ID is not injected: job-index %" PRId64 " of coordinator %.80s is not one of %" PRId64
                " slices",
                id->replica, id->coordinator, id->slices);
      return;
    }
  add (d, "MEGASCALE_NUM_SLICES", arena_printf (d->plan->arena, "%" PRId64, id->slices));
  add_coordinator (d, false, false);
}

static void
add_megascale (struct decision *d)
{
  if (d->plan->identity->owner == TPU_OWNER_RAY)
    add_ray_megascale (d);
  else if (d->plan->identity->owner == TPU_OWNER_JOBSET)
    add_jobset_megascale (d);
}

/* What the pod's first TPU container has as TPU_WORKER_HOSTNAMES; NULL when absent or hidden. */
static const char *
first_hostnames (const struct plan *plan)
{
  const cJSON *entry = find_entry (json_get (plan->containers->items[0].object, "env"), "TPU_WORKER_HOSTNAMES");

  return entry ? literal (entry) : NULL;
}

static bool
has_hosts (const cJSON *env)
{
  return find_entry (env, "TPU_WORKER_HOSTNAMES") != NULL || find_entry (env, "TPU_WORKER_ID") != NULL;
}

/* A LeaderWorkerSet's webhook takes the first container for all (§1.1 rule 10). */
static bool
wants_hosts (const struct decision *d)
{
  const struct plan *plan = d->plan;

  if (plan->hostnames.value == NULL || has_hosts (d->env))
    return false;
  return plan->identity->owner != TPU_OWNER_LWS || d->container == plan->containers->items
         || text_eq (first_hostnames (plan), plan->hostnames.value)
         || !has_hosts (json_get (plan->containers->items[0].object, "env"));
}

static void
add_hostnames (struct decision *d)
{
  if (wants_hosts (d))
    add (d, "TPU_WORKER_HOSTNAMES", d->plan->hostnames.value);
}

/* Ports of the pod's processes by slot: the user's own where they are literals (§1.1 rule 8). NULL when one is hidden.
 */
static struct tpu_word *
process_suffixes (const struct plan *plan)
{
  struct tpu_word *words = port_suffixes (plan->identity->process_port, plan->identity->processes, plan->arena);

  for (size_t i = 0; words != NULL && i < plan->containers->count; i++)
    {
      const struct tpu_container *c = &plan->containers->items[i];
      const cJSON *entry = find_entry (json_get (c->object, "env"), "TPU_PROCESS_PORT");
      char *text;
      int64_t port;

      if (!c->concurrent || c->slot >= plan->identity->processes || entry == NULL)
        continue;
      if (!literal_port (entry, &port))
        return NULL;
      text = arena_printf (plan->arena, ":%" PRId64, port);
      words[c->slot] = (struct tpu_word){ .text = text, .len = strlen (text) };
    }
  return words;
}

/* Rule 12b. Not where it is not needed: a wrong count there breaks one-process-per-chip set-ups (report 24). A
 * LeaderWorkerSet's webhook does not ask for the need: what goes with its list of hosts goes with ours (§1.1 rule 9).
 */
static bool
needs_processes (const struct decision *d)
{
  const struct plan *plan = d->plan;
  const struct tpu_accelerator *a = plan->request->accelerator;
  const cJSON *entry = find_entry (d->env, "TPU_WORKER_HOSTNAMES");

  if (plan->identity->owner == TPU_OWNER_LWS
      && (wants_hosts (d)
          || (entry != NULL && plan->hostnames.value != NULL && text_eq (literal (entry), plan->hostnames.value))))
    return true;
  return a != NULL && a->process_family && plan->identity->hosts > 1;
}

static void
add_processes (struct decision *d)
{
  struct plan *plan = d->plan;
  const cJSON *own_port = find_entry (d->env, "TPU_PROCESS_PORT");
  struct tpu_hosts own;
  const struct tpu_hosts *hosts;
  struct tpu_word *suffixes;
  const char *value;
  int64_t port;

  if (!needs_processes (d) || has (d, "TPU_PROCESS_ADDRESSES")
      || (own_port != NULL && (!d->container->concurrent || !literal_port (own_port, &port))))
    return;
  suffixes = process_suffixes (plan);
  if (suffixes == NULL)
    {
      tpu_warn (plan->warnings,
                "TPU_PROCESS_ADDRESSES is not injected: TPU_PROCESS_PORT of another container of the Pod is "
                "no literal port");
      return;
    }
  hosts = reachable_hosts (d, &own, "TPU_PROCESS_ADDRESSES");
  value = hosts
              ? join_hosts (plan, &plan->processes, hosts, suffixes, plan->identity->processes, "TPU_PROCESS_ADDRESSES")
              : NULL;
  if (value == NULL)
    return;
  add (d, "TPU_PROCESS_ADDRESSES", value);
  if (own_port == NULL)
    add (d, "TPU_PROCESS_PORT", arena_printf (plan->arena, "%s", suffixes[d->container->slot].text + 1));
}

static const char *
torch_topology (const struct plan *plan)
{
  const struct tpu_topology *t = &plan->request->topology;
  int devices = plan->request->accelerator->devices_per_chip;
  const char *dims = arena_printf (plan->arena, "%d,%d,%d", t->dims[0], t->dims[1], t->ndims == 3 ? t->dims[2] : 1);

  return devices > 1 ? arena_printf (plan->arena, "%s,%d", dims, devices) : dims;
}

/* §6.2. A process per device of the whole pod, which the topology divides: the count is product x devices by
 * construction. Several containers share one network namespace and a multiple of these ports: upstream has no answer
 * yet (§9.5). */
static void
add_torch (struct decision *d)
{
  struct plan *plan = d->plan;
  const struct tpu_request *r = plan->request;
  const struct tpu_hosts *hosts;
  struct tpu_hosts own;
  const char *value = NULL;
  int64_t devices;

  if (has (d, "TORCH_TPU_TOPOLOGY") || has (d, "TORCH_TPU_SLICEBUILDER_ADDRESSES")
      || (r->accelerator != NULL && !r->accelerator->torch_family))
    return;
  if (r->accelerator == NULL)
    tpu_warn (plan->warnings, "TORCH_TPU_TOPOLOGY is not injected: accelerator %.63s is not known here",
              r->accelerator_text ? r->accelerator_text : "(no node selector)");
  else if (r->containers > 1)
    tpu_warn (plan->warnings,
              "TORCH_TPU_TOPOLOGY is not injected: it is defined for one TPU container, the Pod has %" PRId64,
              r->containers);
  if (r->accelerator == NULL || r->containers > 1 || r->hosts != plan->identity->hosts)
    return;
  hosts = reachable_hosts (d, &own, "TORCH_TPU_SLICEBUILDER_ADDRESSES");
  devices = r->chips * r->accelerator->devices_per_chip;
  if (hosts != NULL)
    value = join_hosts (plan, &plan->slicebuilder, hosts, port_suffixes (SLICEBUILDER_PORT, devices, plan->arena),
                        devices, "TORCH_TPU_SLICEBUILDER_ADDRESSES");
  if (value == NULL)
    return;
  add (d, "TORCH_TPU_TOPOLOGY", torch_topology (plan));
  add (d, "TORCH_TPU_SLICEBUILDER_ADDRESSES", value);
}

/* Several containers are several workers (rule 12, reports 17 and 33). */
static void
add_worker_id (struct decision *d)
{
  const struct plan *plan = d->plan;

  if (wants_hosts (d))
    add (d, "TPU_WORKER_ID",
         arena_printf (plan->arena, "%" PRId64, plan->identity->host * plan->identity->processes + d->container->slot));
}

static void
add_name (struct decision *d)
{
  if (*d->plan->identity->slice && !has (d, "TPU_NAME"))
    add (d, "TPU_NAME", d->plan->identity->slice);
}

/* Where Ray reads the node's TPU metrics (§2.4, §5.4). The address refers to the entry before it. */
static void
add_device_plugin (struct decision *d)
{
  if (d->plan->identity->owner != TPU_OWNER_RAY || has (d, "TPU_DEVICE_PLUGIN_ADDR"))
    return;
  if (!has (d, "TPU_DEVICE_PLUGIN_HOST_IP"))
    d->entries[d->count++] = (struct entry){ .name = "TPU_DEVICE_PLUGIN_HOST_IP", .field = "status.hostIP" };
  add (d, "TPU_DEVICE_PLUGIN_ADDR", "$(TPU_DEVICE_PLUGIN_HOST_IP):2112");
}

/* The order of the KubeRay TPU webhook (§5.4). */
static const struct
{
  void (*decide) (struct decision *d);
  bool needs_identity;
} variables[] = {
  { add_megascale, true }, { add_hostnames, true }, { add_processes, true },      { add_torch, true },
  { add_worker_id, true }, { add_name, true },      { add_device_plugin, false },
};

/* ---- writing ---- */

static cJSON *
entry_json (const struct entry *e)
{
  cJSON *object = cJSON_CreateObject ();

  json_set_str (object, "name", e->name);
  if (e->field != NULL)
    json_set_str (json_obj (json_obj (object, "valueFrom"), "fieldRef"), "fieldPath", e->field);
  else
    json_set_str (object, "value", e->value);
  return object;
}

/* Appends to the env there is, or makes it (rule 10): no operation depends on an index into env. */
static void
write_entries (cJSON *patch, const struct decision *d)
{
  const char *section = d->container->section;
  char index[16];
  cJSON *array;

  snprintf (index, sizeof (index), "%d", d->container->index);
  if (d->count > 0 && !cJSON_IsArray (d->env))
    {
      array = cJSON_CreateArray ();
      for (size_t i = 0; i < d->count; i++)
        json_push (array, entry_json (&d->entries[i]));
      json_patch_op (patch, "add", array, "spec", section, index, "env");
    }
  else
    for (size_t i = 0; i < d->count; i++)
      json_patch_op (patch, "add", entry_json (&d->entries[i]), "spec", section, index, "env", "-");
}

/* The lists that every container shares; TPU_WORKER_HOSTNAMES names a host once for each of its processes (rule 12). */
static void
name_hosts (struct plan *plan)
{
  int64_t processes = plan->identity->processes;
  struct tpu_word *repeat = arena_alloc (plan->arena, (size_t) processes * sizeof (*repeat));

  for (int64_t i = 0; i < processes; i++)
    repeat[i] = (struct tpu_word){ .text = "" };
  tpu_hosts_name (&plan->hosts, plan->identity, plan->arena);
  join_hosts (plan, &plan->hostnames, &plan->hosts, repeat, processes, "TPU_WORKER_HOSTNAMES");
}

/* Of a subgroup's pod only the first container has a place in the slice (§1.2). */
static bool
has_place (const struct decision *d)
{
  const struct tpu_identity *id = d->plan->identity;

  if (id->unknown != NULL)
    return false;
  if (id->processes >= d->plan->request->containers || d->container == d->plan->containers->items)
    return true;
  tpu_warn (d->plan->warnings,
            "container %.63s is not told its place: in subgroups only the first TPU container of a Pod has one",
            container_name (d));
  return false;
}

void
tpu_env_patch (cJSON *patch, cJSON *warnings, const struct tpu_containers *containers, const struct tpu_request *r,
               const struct tpu_identity *id, struct arena *arena)
{
  struct plan plan = { .request = r, .identity = id, .containers = containers, .arena = arena, .warnings = warnings };

  if (id->unknown == NULL)
    name_hosts (&plan);
  for (size_t c = 0; c < containers->count; c++)
    {
      struct decision d = { .plan = &plan, .container = &containers->items[c] };
      bool place = has_place (&d);

      d.env = json_get (d.container->object, "env");
      for (size_t i = 0; i < ARRAY_LEN (variables); i++)
        if (place || !variables[i].needs_identity)
          variables[i].decide (&d);
      write_entries (patch, &d);
    }
}
