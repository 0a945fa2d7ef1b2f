/* Promises that hold for every Pod: 1,000 valid ones and 1,000 hostile ones from fixed seeds. A Pod that breaks a
 * promise is made smaller, member by member, while it still does, and then printed. */
#include "test_tpu_owners.h"

#define PODS 1000

/* ---- chance ---- */

struct chance
{
  uint64_t state;
};

static uint32_t
draw (struct chance *c, uint32_t below)
{
  c->state = c->state * 6364136223846793005ULL + 1442695040888963407ULL;
  return (uint32_t) ((c->state >> 33) % below);
}

#define pick(c, array) ((array)[draw ((c), (uint32_t) ARRAY_LEN (array))])

/* ---- valid pods ---- */

static const struct shape
{
  const char *accelerator, *topology, *chips;
  int hosts;
} shapes[] = {
  { "tpu-v3-slice", "4x4", "4", 4 },
  { "tpu-v4-podslice", "2x2x4", "4", 4 },
  { "tpu-v5-lite-podslice", "2x4", "8", 1 },
  { "tpu-v5-lite-podslice", "2x4", "4", 2 },
  { "tpu-v5p-slice", "2x2x2", "4", 2 },
  { "tpu-v6e-slice", "2x2", "4", 1 },
  { "tpu-v6e-slice", "4x4", "4", 4 },
  { "tpu-v6e-slice", "4x8", "4", 8 },
  { "tpu7x", "2x2x1", "4", 1 },
  { "tpu7x", "2x2x2", "4", 2 },
  { "tpu7x", "2x4x4", "4", 8 },
  { "tpu9", "4x4", "4", 4 },
};

static cJSON *
lws_pod (struct chance *c, const struct shape *s)
{
  int size = 1 + (int) draw (c, 9), worker = (int) draw (c, (uint32_t) size);
  char name[32], number[8], sub[8];
  cJSON *pod;

  snprintf (name, sizeof (name), worker ? "l-0-%d" : "l-0", worker);
  snprintf (number, sizeof (number), "%d", size);
  snprintf (sub, sizeof (sub), "%d", 1 + (int) draw (c, 4));
  pod = make_lws_pod (make_pod (s->accelerator, s->topology, s->chips), name, worker == 0, number,
                      draw (c, 3) ? NULL : sub, worker > 0 && draw (c, 2));
  return pod;
}

static cJSON *
owned_pod (struct chance *c)
{
  const struct shape *s = &pick (c, shapes);
  int host = (int) draw (c, (uint32_t) s->hosts), slice = (int) draw (c, 3);
  cJSON *pod;

  switch (draw (c, 7))
    {
    case 0:
      return lws_pod (c, s);
    case 1:
      return make_jobset_pod (s->accelerator, s->topology, s->chips, slice, 3, host);
    case 2:
      return make_job_pod (s->accelerator, s->topology, s->chips, "j", host, draw (c, 5) ? "svc" : NULL);
    case 3:
      return make_statefulset_pod (s->accelerator, s->topology, s->chips, host);
    case 4:
      pod = make_pod (s->accelerator, s->topology, s->chips);
      json_set_str (json_get (pod, "metadata"), "generateName", "bare-");
      return pod;
    default:
      return make_ray_pod (s->accelerator, s->topology, s->chips, "c", "g", slice, s->hosts > 1 ? host : -1);
    }
}

static void
add_user_env (struct chance *c, cJSON *container)
{
  static const char *const values[] = { "", "0", "2", "8471", "localhost", "a,b" };
  cJSON *entry = json_push_obj (json_arr (container, "env"));

  json_set_str (entry, "name", draw (c, 6) ? pick (c, all_variables) : "MEGASCALE_NUM_SLICES");
  if (draw (c, 4) == 0)
    json_set_str (json_obj (json_obj (entry, "valueFrom"), "fieldRef"), "fieldPath", "metadata.name");
  else
    json_set_str (entry, "value", pick (c, values));
}

static void
add_affinity (struct chance *c, cJSON *pod)
{
  static const char *const kinds[] = { "podAffinity", "podAntiAffinity" };
  cJSON *group = json_obj (json_obj (json_get (pod, "spec"), "affinity"), pick (c, kinds));
  cJSON *term = json_push_obj (
      json_arr (group, draw (c, 2) ? "requiredDuringSchedulingIgnoredDuringExecution" : "preferredDuringScheduling"));

  json_set_str (term, "topologyKey", draw (c, 2) ? "kubernetes.io/hostname" : "cloud.google.com/gke-nodepool");
}

static void
add_askers (cJSON *pod, const char *section, uint32_t count)
{
  cJSON *list = json_arr (json_get (pod, "spec"), section);

  for (; count > 0; count--)
    json_set_str (json_obj (json_obj (json_push_obj (list), "resources"), "limits"), "google.com/tpu", "1");
}

/* As many as may be, and now and then more, on a large slice: each is told all hosts. */
static void
ask_often (struct chance *c, cJSON *pod)
{
  static const char *const topologies[] = { "64x128", "32x256", "128x128", "16x16x32" };
  cJSON *selector = json_obj (json_get (pod, "spec"), "nodeSelector");

  edit (pod, "[{'op': 'add', 'path': '/spec/containers/0/resources', 'value': {'limits': {'google.com/tpu': 1}}}]");
  add_askers (pod, "containers", draw (c, 2) ? 7 : draw (c, 10));
  add_askers (pod, "initContainers", draw (c, 2) ? 8 : draw (c, 10));
  json_set_str (selector, "cloud.google.com/gke-tpu-accelerator", draw (c, 8) ? "tpu-v6e-slice" : "tpu9");
  json_set_str (selector, "cloud.google.com/gke-tpu-topology", pick (c, topologies));
}

/* Two containers on one machine, and an init container that asks as well. */
static void
add_containers (struct chance *c, cJSON *pod)
{
  if (draw (c, 4) == 0)
    edit (pod, "[{'op': 'add', 'path': '/spec/containers/0/resources/limits/google.com~1tpu', 'value': '2'},"
               "{'op': 'add', 'path': '/spec/containers/1/resources', 'value': {'requests': {'google.com/tpu': 2}}}]");
  if (draw (c, 4) == 0)
    edit (pod, "[{'op': 'add', 'path': '/spec/initContainers', 'value': [{'name': 'i', 'resources': {'limits': "
               "{'google.com/tpu': 4}}}]}]");
}

static cJSON *
valid_pod (struct chance *c)
{
  cJSON *pod = owned_pod (c);

  add_containers (c, pod);
  if (draw (c, 6) == 0)
    ask_often (c, pod);
  while (draw (c, 2))
    add_user_env (c, cJSON_GetArrayItem (json_get (pod, "spec", "containers"), (int) draw (c, 2)));
  if (draw (c, 4) == 0)
    add_affinity (c, pod);
  if (draw (c, 8) == 0)
    set_annotation (pod, "cloud.google.com/gke-tpu-slice-topology", draw (c, 2) ? "2x2" : "2x2x1");
  if (draw (c, 10) == 0)
    json_set_bool (json_get (pod, "spec"), "hostNetwork", true);
  return pod;
}

/* ---- hostile pods: valid ones of which members are odd or gone ---- */

static size_t
count_members (const cJSON *v)
{
  const cJSON *item;
  size_t n = 0;

  cJSON_ArrayForEach (item, v)
    n += 1 + count_members (item);
  return n;
}

/* The n-th member below v, in order; *parent is what holds it. */
static cJSON *
nth_member (cJSON *v, size_t *n, cJSON **parent)
{
  for (cJSON *item = v->child; item != NULL; item = item->next)
    {
      cJSON *found;

      if (*n == 0)
        {
          *parent = v;
          return item;
        }
      (*n)--;
      found = nth_member (item, n, parent);
      if (found != NULL)
        return found;
    }
  return NULL;
}

static cJSON *
odd_value (struct chance *c)
{
  static const char *const texts[] = {
    "null",
    "true",
    "-1",
    "0",
    "0.5",
    "1e300",
    "9007199254740993",
    "''",
    "[]",
    "{}",
    "[null]",
    "'4x4x4x4'",
    "'-1'",
    "'1'",
    "'99999999999999999999'",
    "{'': null}",
    "'0x4'",
    "'a,b:c'",
    "[[1,2]]",
    "'4096x4096x4096'",
    "'tpu7x'",
    "[{'name': 'TPU_NAME'}]",
    "'UPPER'",
    "' '",
    "'65535'",
    "'4Gi'",
    "'4.0'",
    "4",
    "'127'",
    "{'google.com/tpu': '1e9'}",
  };

  if (draw (c, 20) == 0)
    {
      cleanup_free char *text = xmalloc (70001);

      memset (text, 'x', 70000);
      text[70000] = '\0';
      return cJSON_CreateString (text);
    }
  return parse_json (pick (c, texts));
}

static cJSON *
hostile_pod (struct chance *c)
{
  cJSON *pod = valid_pod (c);

  for (uint32_t changes = 1 + draw (c, 4); changes > 0 && count_members (pod) > 0; changes--)
    {
      size_t n = draw (c, (uint32_t) count_members (pod));
      cJSON *parent = NULL, *member = nth_member (pod, &n, &parent);

      if (draw (c, 5) == 0)
        cJSON_Delete (cJSON_DetachItemViaPointer (parent, member));
      else if (cJSON_IsArray (parent))
        cJSON_ReplaceItemViaPointer (parent, member, odd_value (c));
      else
        {
          cleanup_free char *key = xstrdup (member->string);

          cJSON_ReplaceItemInObjectCaseSensitive (parent, key, odd_value (c));
        }
    }
  return pod;
}

/* ---- promises: NULL when kept, else what was broken ---- */

static bool
asks_for_tpus (const cJSON *container)
{
  return json_get (container, "resources", "limits", "google.com/tpu") != NULL
         || json_get (container, "resources", "requests", "google.com/tpu") != NULL;
}

static bool
is_ours (const cJSON *entry)
{
  const char *name = json_str (entry, "name");

  return text_index (name, all_variables, ARRAY_LEN (all_variables)) >= 0 || text_eq (name, "MEGASCALE_NUM_SLICES");
}

/* The user's entries, then ours. */
static const char *
compare_env (const cJSON *before, const cJSON *after)
{
  const cJSON *old = json_get (before, "env"), *new = json_get (after, "env");

  if (json_equal (old, new))
    return NULL;
  if (!asks_for_tpus (before))
    return "a container that does not ask for TPUs was changed";
  if (!cJSON_IsArray (new))
    return "env is no array any more";
  new = new->child;
  if (cJSON_IsArray (old))
    for (old = old->child; old != NULL; old = old->next, new = new->next)
      if (!json_equal (old, new))
        return "an entry of the user's was moved or changed";
  for (; new != NULL; new = new->next)
    if (!is_ours (new))
      return "an entry that is not documented was added";
  return NULL;
}

static const char *
compare_containers (cJSON *before, cJSON *after, const char *section)
{
  cJSON *old = json_get (before, "spec", section), *new = json_get (after, "spec", section);

  if (!cJSON_IsArray (old) || !cJSON_IsArray (new))
    return NULL;
  for (old = old->child, new = new->child; old != NULL &&new != NULL; old = old->next, new = new->next)
    {
      const char *broken = compare_env (old, new);

      if (broken != NULL)
        return broken;
      if (cJSON_IsObject (old))
        json_drop (old, "env");
      if (cJSON_IsObject (new))
        json_drop (new, "env");
    }
  return NULL;
}

/* Terms may come behind the user's, in two lists of a Ray pod; nothing else may. */
static const char *
compare_affinity (const cJSON *before, cJSON *after)
{
  static const char *const kinds[] = { "podAffinity", "podAntiAffinity" };
  static const char required[] = "requiredDuringSchedulingIgnoredDuringExecution";

  for (size_t i = 0; i < ARRAY_LEN (kinds); i++)
    {
      const cJSON *old = json_get (before, "spec", "affinity", kinds[i], required);
      cJSON *group = json_get (after, "spec", "affinity", kinds[i]), *new = json_get (group, required);
      int count = cJSON_IsArray (old) ? cJSON_GetArraySize (old) : 0;

      if (!cJSON_IsArray (new) || json_equal (old, new))
        continue;
      while (cJSON_GetArraySize (new) > count)
        cJSON_DeleteItemFromArray (new, count);
      if (count == 0 && !cJSON_IsArray (old))
        json_drop (group, required);
      if (cJSON_GetArraySize (group) == 0 && json_get (before, "spec", "affinity", kinds[i]) == NULL)
        json_drop (json_get (after, "spec", "affinity"), kinds[i]);
    }
  if (cJSON_GetArraySize (json_get (after, "spec", "affinity")) == 0 && json_get (before, "spec", "affinity") == NULL)
    json_drop (json_get (after, "spec"), "affinity");
  return NULL;
}

/* A field that may only be filled where there was nothing; taken out of both. */
static const char *
compare_filled (cJSON *before, cJSON *after, const char *field)
{
  const char *old = json_str (before, "spec", field);

  if (old != NULL && *old && !text_eq (old, json_str (after, "spec", field)))
    return "hostname or subdomain of the user's was changed";
  if (cJSON_IsObject (json_get (before, "spec")))
    json_drop (json_get (before, "spec"), field);
  if (cJSON_IsObject (json_get (after, "spec")))
    json_drop (json_get (after, "spec"), field);
  return NULL;
}

static void
drop_nulls (cJSON *object)
{
  for (cJSON *item = object ? object->child : NULL, *next; item != NULL; item = next)
    {
      next = item->next;
      if (cJSON_IsObject (object) && cJSON_IsNull (item))
        cJSON_Delete (cJSON_DetachItemViaPointer (object, item));
      else
        drop_nulls (item);
    }
}

static const char *
only_documented_fields (const cJSON *original, const cJSON *admitted)
{
  cleanup_json cJSON *before = cJSON_Duplicate (original, true), *after = cJSON_Duplicate (admitted, true);
  const char *broken;

  drop_nulls (before); /* absent and null are the same to the API server */
  drop_nulls (after);
  if ((broken = compare_containers (before, after, "containers")) != NULL
      || (broken = compare_containers (before, after, "initContainers")) != NULL
      || (broken = compare_affinity (before, after)) != NULL
      || (broken = compare_filled (before, after, "hostname")) != NULL
      || (broken = compare_filled (before, after, "subdomain")) != NULL)
    return broken;
  return json_equal (before, after) ? NULL : "a field that is not documented was changed";
}

/* The value of an entry that was added, NULL when it was not. */
static const char *
added (const cJSON *before, const cJSON *after, const char *name)
{
  return json_find (json_get (before, "env"), "name", name) ? NULL : json_str (env_entry (after, name), "value");
}

/* What a program sees: of two entries the last. */
static const char *
seen (const cJSON *container, const char *name)
{
  const cJSON *entry, *last = NULL;

  cJSON_ArrayForEach (entry, json_get (container, "env"))
    if (text_eq (json_str (entry, "name"), name))
      last = entry;
  return json_str (last, "value");
}

/* Numbers in one container's variables that have to fit each other. */
static const char *
consistent (const cJSON *before, const cJSON *after)
{
  const char *hosts = added (before, after, "TPU_WORKER_HOSTNAMES"), *id = added (before, after, "TPU_WORKER_ID");
  const char *processes = added (before, after, "TPU_PROCESS_ADDRESSES");
  const char *port = seen (after, "TPU_PROCESS_PORT");
  const char *num = added (before, after, "MEGASCALE_NUM_SLICES"), *slice = added (before, after, "MEGASCALE_SLICE_ID");
  int64_t n, count;

  if ((hosts == NULL) != (id == NULL))
    return "half a family of hosts";
  if (hosts != NULL && text_to_int (id, 0, (int64_t) count_entries (hosts) - 1, &n) < 0)
    return "TPU_WORKER_ID is not an index of TPU_WORKER_HOSTNAMES";
  if (hosts != NULL && processes != NULL && count_entries (hosts) != count_entries (processes))
    return "as many hosts as processes";
  if (processes != NULL && (port == NULL || strstr (processes, port) == NULL))
    return "TPU_PROCESS_PORT is not in TPU_PROCESS_ADDRESSES";
  if (num != NULL
      && (slice == NULL || text_to_int (num, 2, INT32_MAX, &count) < 0 || text_to_int (slice, 0, count - 1, &n) < 0))
    return "MEGASCALE_SLICE_ID is none of MEGASCALE_NUM_SLICES";
  return (added (before, after, "TORCH_TPU_TOPOLOGY") == NULL)
                 == (added (before, after, "TORCH_TPU_SLICEBUILDER_ADDRESSES") == NULL)
             ? NULL
             : "half a family of TORCH";
}

static const char *
consistent_containers (const cJSON *original, const cJSON *admitted, const char *section)
{
  const cJSON *old = json_get (original, "spec", section), *new = json_get (admitted, "spec", section);

  if (!cJSON_IsArray (old) || !cJSON_IsArray (new))
    return NULL;
  for (old = old->child, new = new->child; old != NULL &&new != NULL; old = old->next, new = new->next)
    {
      const char *broken = consistent (old, new);

      if (broken != NULL)
        return broken;
    }
  return NULL;
}

/* 1 MiB of names and values, with what JSON and 16 containers need around them. */
#define PATCH_MAX (1024 * 1024 + 65536)

static const char *
bounded (const struct tpu_injection *in)
{
  cleanup_free char *patch = json_print (in->patch);

  if (cJSON_GetArraySize (in->warnings) > 20)
    return "more warnings than anybody reads";
  return strlen (patch) > PATCH_MAX ? "a patch that is larger than an object may be" : NULL;
}

static const char *
broken_promise (const cJSON *pod)
{
  cleanup_json cJSON *admitted = cJSON_Duplicate (pod, true);
  cleanup_injection struct tpu_injection in = { 0 }, again = { 0 };
  struct error err = { "" };
  const char *broken;

  if (tpu_inject (&in, pod, NULL, &err) < 0)
    return in.patch != NULL || err.message[0] == '\0' ? "a refusal with a patch or without a reason" : NULL;
  broken = bounded (&in);
  if (broken != NULL)
    return broken;
  if (json_patch_apply (admitted, in.patch, &err) < 0)
    return "the patch does not apply";
  if (tpu_inject (&again, admitted, NULL, &err) < 0)
    return "what was admitted is refused";
  if (cJSON_GetArraySize (again.patch) != 0)
    return "the second injection adds something";
  if (in.worker_id >= 0 && in.worker_id >= in.hosts)
    return "a worker beyond its slice";
  broken = only_documented_fields (pod, admitted);
  if (broken == NULL)
    broken = consistent_containers (pod, admitted, "containers");
  return broken ? broken : consistent_containers (pod, admitted, "initContainers");
}

/* ---- shrinking ---- */

/* Drops members of *pod for as long as `broken` still says so without them. */
static void
shrink (cJSON **pod, const char *(*broken) (const cJSON *pod))
{
  for (size_t n = 0; n < count_members (*pod);)
    {
      cleanup_json cJSON *smaller = cJSON_Duplicate (*pod, true);
      size_t at = n;
      cJSON *parent = NULL, *member = nth_member (smaller, &at, &parent);

      cJSON_Delete (cJSON_DetachItemViaPointer (parent, member));
      if (broken (smaller) == NULL)
        n++;
      else
        {
          cJSON_Delete (*pod);
          *pod = take_ptr (smaller);
        }
    }
}

static void
check_pods (cJSON *(*make) (struct chance *c), uint64_t first_seed)
{
  size_t injected = 0;

  for (uint64_t i = 0; i < PODS; i++)
    {
      struct chance c = { first_seed + i * 7919 };
      cleanup_json cJSON *pod = make (&c);
      cleanup_injection struct tpu_injection in = { 0 };
      const char *broken = broken_promise (pod);

      if (broken != NULL)
        {
          shrink (&pod, broken_promise);
          fail_msg ("seed %d: %s: %s", (int) i, broken_promise (pod), json_print_pretty (pod));
        }
      injected += tpu_inject (&in, pod, NULL, NULL) == 0 && cJSON_GetArraySize (in.patch) > 0;
    }
  assert_true (injected > PODS / 4); /* else these pods would prove little */
}

static void
test_valid_pods (void **state)
{
  (void) state;
  check_pods (valid_pod, 1);
}

static void
test_hostile_pods (void **state)
{
  (void) state;
  check_pods (hostile_pod, 1000000007);
}

/* ---- the tools themselves ---- */

static const char *
has_a_subdomain (const cJSON *pod)
{
  return json_get (pod, "spec", "subdomain") ? "yes" : NULL;
}

static void
test_shrinking_keeps_only_what_breaks (void **state)
{
  cleanup_json cJSON *pod = make_base (JOB), *left = parse_json ("{'spec': {'subdomain': 's'}}");

  (void) state;
  shrink (&pod, has_a_subdomain);
  assert_true (json_equal (pod, left));
}

/* Each change that the promises forbid is seen. */
static void
test_forbidden_changes_are_seen (void **state)
{
  static const char *const edits[] = {
    "[{'op': 'add', 'path': '/spec/containers/1/env', 'value': [{'name': 'TPU_NAME', 'value': 'x'}]}]",
    "[{'op': 'add', 'path': '/spec/containers/0/env', 'value': [{'name': 'OTHER', 'value': 'x'}]}]",
    "[{'op': 'add', 'path': '/metadata/labels/x', 'value': 'y'}]",
    "[{'op': 'add', 'path': '/spec/hostname', 'value': 'other'}]",
    "[{'op': 'add', 'path': '/spec/affinity', 'value': {'nodeAffinity': {}}}]",
    "[{'op': 'remove', 'path': '/spec/containers/1'}]",
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (edits); i++)
    {
      cleanup_json cJSON *pod = make_base (JOB), *changed = cJSON_Duplicate (pod, true);

      edit (changed, edits[i]);
      if (only_documented_fields (pod, changed) == NULL)
        fail_msg ("not seen: %s", edits[i]);
    }
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_shrinking_keeps_only_what_breaks),
    cmocka_unit_test (test_forbidden_changes_are_seen),
    cmocka_unit_test (test_valid_pods),
    cmocka_unit_test (test_hostile_pods),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
