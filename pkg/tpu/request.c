/* request.c - what a pod template asks for: chips, containers, accelerator, topology, hosts. */
#include "tpu/tpu_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/* More than any machine has; keeps every later sum and product far from overflow. */
#define CHIPS_MAX 65536

/* Concurrent ones, and as many that only initialise. As many as the largest machine has chips; each is told the whole
 * slice. */
#define CONTAINERS_MAX 8

const struct tpu_options tpu_default_options = TPU_DEFAULT_OPTIONS;

/* ---- containers ---- */

/* A quantity, written as a string or as a number; absent is 0. */
static int
read_chips (int64_t *chips, const cJSON *value, struct error *err)
{
  cleanup_free char *text = NULL;
  struct quantity q;
  int ret;

  *chips = 0;
  if (value == NULL || cJSON_IsNull (value))
    return 0;
  if (!cJSON_IsString (value) && !cJSON_IsNumber (value))
    return error_set (err, EINVAL, "must be a quantity, this is %s: write the number of chips, as in 4",
                      json_type_name (value));
  text = cJSON_IsString (value) ? xstrdup (value->valuestring) : json_print (value);
  ret = quantity_parse (&q, text, err);
  if (ret < 0)
    return ret;
  if (!quantity_is_integer (&q) || q.nano < 0 || quantity_ceil (&q) > CHIPS_MAX)
    return error_set (err, EINVAL, "%.64s is not a whole number of chips between 0 and %d", text, CHIPS_MAX);
  *chips = quantity_ceil (&q);
  return 0;
}

/* Limits count first, requests when they say nothing (§8.1 rule 1). */
static int
read_container (struct tpu_container *c, struct error *err)
{
  static const char *const kinds[] = { "limits", "requests" };
  const cJSON *env = json_get (c->object, "env");

  for (size_t i = 0; i < ARRAY_LEN (kinds) && c->chips == 0; i++)
    {
      int ret = read_chips (&c->chips, json_get (c->object, "resources", kinds[i], TPU_RESOURCE), err);

      if (ret < 0)
        return error_wrap (err, -EINVAL, "spec.%s[%d].resources.%s[%s]", c->section, c->index, kinds[i], TPU_RESOURCE);
    }
  if (c->chips > 0 && env != NULL && !cJSON_IsArray (env) && !cJSON_IsNull (env))
    return error_set (err, EINVAL, "spec.%s[%d].env must be an array, this is %s", c->section, c->index,
                      json_type_name (env));
  return 0;
}

static int
collect_section (struct tpu_containers *list, const cJSON *template, const char *section, int64_t *slot,
                 struct error *err)
{
  const cJSON *array = json_get (template, "spec", section), *object;
  bool init = text_eq (section, "initContainers");
  int index = 0;

  if (!cJSON_IsArray (array))
    return 0;
  cJSON_ArrayForEach (object, array)
    {
      struct tpu_container c = { .object = object, .section = section, .index = index };
      int ret = read_container (&c, err);

      index++;
      if (ret < 0)
        return ret;
      if (c.chips == 0)
        continue;
      c.concurrent = !init || text_eq (json_str (object, "restartPolicy"), "Always");
      if (c.concurrent)
        c.slot = (*slot)++;
      list->items[list->count++] = c;
    }
  return 0;
}

static size_t
array_size (const cJSON *array)
{
  return cJSON_IsArray (array) ? (size_t) cJSON_GetArraySize (array) : 0;
}

/* Containers come before init containers in the numbering of processes, as LeaderWorkerSet has it (§1.1 rule 2). */
static int
collect_containers (struct tpu_containers *list, const cJSON *template, struct arena *arena, struct error *err)
{
  size_t count = array_size (json_get (template, "spec", "containers"))
                 + array_size (json_get (template, "spec", "initContainers"));
  int64_t slot = 0;
  int ret;

  *list = (struct tpu_containers){ .items = arena_alloc (arena, count * sizeof (list->items[0])) };
  ret = collect_section (list, template, "containers", &slot, err);
  return ret < 0 ? ret : collect_section (list, template, "initContainers", &slot, err);
}

/* Where only ordinary init containers ask for TPUs they run one by one: the largest counts. */
static void
sum_chips (struct tpu_request *r, const struct tpu_containers *containers)
{
  int64_t largest = 0;

  for (size_t i = 0; i < containers->count; i++)
    {
      const struct tpu_container *c = &containers->items[i];

      if (c->concurrent)
        {
          r->chips += c->chips;
          r->containers++;
        }
      else if (c->chips > largest)
        largest = c->chips;
    }
  if (r->containers == 0 && largest > 0)
    {
      r->chips = largest;
      r->containers = 1;
    }
}

/* ---- accelerator and topology ---- */

/* The one value that a nodeSelectorTerm requires for the label, or NULL. */
static const char *
term_value (const cJSON *term, const char *label)
{
  const cJSON *expressions = json_get (term, "matchExpressions"), *e;

  if (!cJSON_IsArray (expressions))
    return NULL;
  cJSON_ArrayForEach (e, expressions)
    {
      const cJSON *values = json_get (e, "values");

      if (text_eq (json_str (e, "key"), label) && text_eq (json_str (e, "operator"), "In") && array_size (values) == 1)
        return cJSON_GetStringValue (values->child);
    }
  return NULL;
}

/* Terms are alternatives: only what all of them agree on is certain. */
static const char *
affinity_value (const cJSON *template, const char *label)
{
  const cJSON *terms = json_get (template, "spec", "affinity", "nodeAffinity",
                                 "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"),
              *term;
  const char *value = NULL;

  if (!cJSON_IsArray (terms))
    return NULL;
  cJSON_ArrayForEach (term, terms)
    {
      const char *own = term_value (term, label);

      if (own == NULL || (value != NULL && !text_eq (own, value)))
        return NULL;
      value = own;
    }
  return value;
}

/* By the first of the labels that nodes are selected by; *label says which, or the first when there is none. */
static const char *
node_value (const cJSON *template, const char *const labels[TPU_LABELS_MAX], const char **label)
{
  for (size_t i = 0; i < TPU_LABELS_MAX && labels[i] != NULL; i++)
    {
      const char *selected = json_str (template, "spec", "nodeSelector", labels[i]);
      const char *value = selected ? selected : affinity_value (template, labels[i]);

      *label = labels[i];
      if (value != NULL)
        return value;
    }
  *label = labels[0];
  return NULL;
}

/* The effective topology (§6.2): what the slice annotation says, else what the nodes are selected by. */
static int
read_topology (struct tpu_request *r, const cJSON *template, const struct tpu_options *options, struct error *err)
{
  const char *annotated = json_str (template, "metadata", "annotations", TPU_ANNOTATION_SLICE_TOPOLOGY);
  const char *label, *selected = node_value (template, options->topology_labels, &label);
  int ret;

  r->topology_text = annotated ? annotated : selected;
  r->partial = annotated != NULL && !text_eq (annotated, selected);
  if (r->topology_text == NULL)
    return 0;
  ret = tpu_topology_parse (&r->topology, r->topology_text, err);
  if (ret < 0)
    return error_wrap (err, ret, "%s %s", annotated ? "annotation" : "node selector",
                       annotated ? TPU_ANNOTATION_SLICE_TOPOLOGY : label);
  return 0;
}

#define UNDIVIDED "topology %s has %" PRId64 " chips, which " TPU_RESOURCE ": %" PRId64 " of each Pod does not divide"

static int
refuse_chips (const struct tpu_request *r, int64_t chips, struct error *err)
{
  const struct tpu_accelerator *a = r->accelerator;
  int64_t per_pod = chips <= (a != NULL ? a->vm_chips : TPU_SLICE_VM_CHIPS) ? chips : TPU_SLICE_VM_CHIPS;

  if (chips == 1 || chips % TPU_SLICE_VM_CHIPS == 0)
    return error_set (err, EINVAL, UNDIVIDED ": ask for %" PRId64 " per Pod", r->topology_text, chips, r->chips,
                      per_pod);
  return error_set (err, EINVAL, UNDIVIDED ", and no slice has so many: write the topology of the node pool, as in %s",
                    r->topology_text, chips, r->chips, r->topology.ndims == 3 ? "2x2x2" : "4x4");
}

static int
count_hosts (struct tpu_request *r, struct error *err)
{
  const struct tpu_accelerator *a = r->accelerator;
  int64_t chips = tpu_topology_chips (&r->topology);

  if (a != NULL && r->topology.ndims != a->ndims)
    return error_set (err, EINVAL, "topology %s has %d dimensions, but slices of accelerator %s have %d: write e.g. %s",
                      r->topology_text, r->topology.ndims, a->label, a->ndims, a->ndims == 3 ? "2x2x2" : "4x4");
  if (chips % r->chips != 0)
    return refuse_chips (r, chips, err);
  r->hosts = chips / r->chips;
  return 0;
}

/* What no machine can run. A small Pod could otherwise ask for an environment of gigabytes: every container is told
 * every container of every host. */
static int
check_machine (const struct tpu_request *r, const struct tpu_containers *containers, struct error *err)
{
  const struct tpu_accelerator *a = r->accelerator;

  if (a != NULL && r->chips > a->vm_chips)
    return error_set (err, EINVAL,
                      "no %s machine has the %" PRId64 " chips that the Pod asks for, the largest has %d: ask for %d "
                      "per Pod, and use more Pods",
                      a->generation, r->chips, a->vm_chips, TPU_SLICE_VM_CHIPS);
  if (r->containers > CONTAINERS_MAX || containers->count > 2 * CONTAINERS_MAX)
    return error_set (err, EINVAL,
                      "%zu containers of the Pod ask for " TPU_RESOURCE
                      ", %d may do so at a time, and as many init containers before them: let fewer ask for more",
                      containers->count, CONTAINERS_MAX);
  return 0;
}

int
tpu_request_collect (struct tpu_request *r, struct tpu_containers *containers, const cJSON *template,
                     const struct tpu_options *options, struct arena *arena, struct error *err)
{
  int ret;

  *r = (struct tpu_request){ 0 };
  ret = collect_containers (containers, template, arena, err);
  if (ret < 0)
    return ret;
  sum_chips (r, containers);
  if (r->chips == 0)
    return 0;
  r->accelerator_text = node_value (template, options->accelerator_labels, &r->accelerator_label);
  r->accelerator = tpu_accelerator_find (r->accelerator_text);
  ret = check_machine (r, containers, err);
  if (ret == 0)
    ret = read_topology (r, template, options, err);
  return ret < 0 || r->topology_text == NULL ? ret : count_hosts (r, err);
}

int
tpu_request_read (struct tpu_request *r, const cJSON *template, const struct tpu_options *options, struct error *err)
{
  cleanup_arena struct arena arena = { 0 };
  struct tpu_containers containers;

  return tpu_request_collect (r, &containers, template, options ? options : &tpu_default_options, &arena, err);
}
