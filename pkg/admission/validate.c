/* validate.c - RayClusters, on their own or inside RayJobs and RayServices: refuses what cannot run, but never holds
 * against an update what is stored already. */
#include "admission/admission_internal.h"

#include <errno.h>
#include <string.h>

#define DENIAL_MAX 4096

/* What makes two problems the same: field and message. Indices are left out: "workerGroupSpecs[1].numOfHosts" is the
 * same problem after group 0 was removed. An update that only scales has the groups of before, in their order, and
 * messages that may count replicas: there the field alone does, in full. Should two different ones ever share a hash,
 * an update with a problem is let through; the controller still sees it. */
static uint64_t
problem_hash (const struct ray_problem *problem, bool only_scales)
{
  uint64_t hash = text_hash_str (0, only_scales ? "" : log_nonnull (problem->message));

  if (only_scales)
    return text_hash_str (hash, log_nonnull (problem->field));
  for (const char *p = log_nonnull (problem->field); *p != '\0'; p++)
    {
      if (*p == '[')
        p += strcspn (p, "]") - 1;
      else
        hash = text_hash (hash, p, 1);
    }
  return hash;
}

struct mark
{
  uint64_t hash;
  size_t index;
};

static int
compare_marks (const void *a, const void *b)
{
  const struct mark *x = a, *y = b;

  return x->hash != y->hash ? (x->hash > y->hash) - (x->hash < y->hash) : (x->index > y->index) - (x->index < y->index);
}

static struct mark *
sorted_marks (const struct ray_problems *problems, bool only_scales)
{
  struct mark *marks = xcalloc (problems->count + 1, sizeof (*marks));

  for (size_t i = 0; i < problems->count; i++)
    marks[i] = (struct mark){ .hash = problem_hash (&problems->items[i], only_scales), .index = i };
  qsort (marks, problems->count, sizeof (*marks), compare_marks);
  return marks;
}

/* For each problem found whether the old object had it. Each old problem excuses one new one, so that a second group
 * with the first one's mistake is new. */
static bool *
find_excused (const struct ray_problems *found, const struct ray_problems *old, bool only_scales)
{
  bool *excused = xcalloc (found->count + 1, sizeof (*excused));
  cleanup_free struct mark *news = sorted_marks (found, only_scales);
  cleanup_free struct mark *olds = sorted_marks (old, only_scales);

  for (size_t i = 0, j = 0; i < found->count && j < old->count;)
    {
      if (news[i].hash == olds[j].hash)
        {
          excused[news[i++].index] = true;
          j++;
        }
      else if (news[i].hash < olds[j].hash)
        i++;
      else
        j++;
    }
  return excused;
}

/* Adds "field: message" while the text is of a size people read; what no longer fits is only counted. */
static void
add_denial (struct buf *denial, const char *text, size_t *left_out)
{
  if (denial->len + strlen (text) > DENIAL_MAX)
    (*left_out)++;
  else
    buf_printf (denial, "%s%s", denial->len > 0 ? "; " : "", text);
}

static void
judge (struct admission_verdict *verdict, const struct ray_problems *found, const struct ray_problems *old,
       bool only_scales)
{
  cleanup_free bool *excused = find_excused (found, old, only_scales);
  cleanup_buf struct buf denial = { 0 };
  size_t left_out = 0;

  for (size_t i = 0; i < found->count; i++)
    {
      const struct ray_problem *p = &found->items[i];
      cleanup_free char *text = xasprintf ("%s: %s", log_nonnull (p->field), log_nonnull (p->message));

      if (excused[i])
        admission_warn (verdict, text);
      else
        add_denial (&denial, text, &left_out);
    }
  if (left_out > 0)
    buf_printf (&denial, "%s%zu more problems", denial.len > 0 ? "; and " : "", left_out);
  if (denial.len > 0)
    admission_deny (verdict, 422, denial.data);
}

/* No reason to refuse it, but the user should know. */
static void
warn_about (struct admission_verdict *verdict, const struct ray_cluster *cluster, const struct ray_options *options)
{
  cleanup_problems struct ray_problems problems = { 0 };

  ray_warnings (cluster, options, &problems);
  for (size_t i = 0; i < problems.count; i++)
    {
      cleanup_free char *text = xasprintf ("%s: %s", problems.items[i].field, problems.items[i].message);

      admission_warn (verdict, text);
    }
}

static const char *
namespace_of (const struct admission_request *request)
{
  return request->namespace[0] != '\0' ? request->namespace : NULL;
}

/* Being deleted, without a cluster of its own, or nothing about the cluster changes. */
static bool
nothing_to_judge (const struct admission_request *request, const struct ray_holder *holder)
{
  const cJSON *object = request->object, *spec = ray_holder_spec (holder, object);

  if (json_str (object, "metadata", "deletionTimestamp") != NULL || (spec == NULL && holder->spec_key != NULL))
    return true;
  return request->old_object != NULL && json_equal (spec, ray_holder_spec (holder, request->old_object));
}

/* Deep copy without what the autoscaler, Kueue and people change to scale and to suspend. */
static cJSON *
without_scale (const cJSON *spec)
{
  static const char *const numbers[] = { "replicas", "minReplicas", "maxReplicas", "suspend", "scaleStrategy" };
  cJSON *copy = cJSON_Duplicate (spec, true), *group;

  json_drop (copy, "suspend");
  cJSON_ArrayForEach (group, json_get (copy, "workerGroupSpecs"))
    {
      for (size_t i = 0; i < ARRAY_LEN (numbers); i++)
        json_drop (group, numbers[i]);
    }
  return copy;
}

static bool
update_only_scales (const struct admission_request *request, const struct ray_holder *holder)
{
  cleanup_json cJSON *now = without_scale (ray_holder_spec (holder, request->object));
  cleanup_json cJSON *before = without_scale (ray_holder_spec (holder, request->old_object));

  return json_equal (now, before);
}

/* False when nothing was stored before, or it cannot be decoded: then it excuses nothing, and has nothing to lose. */
static bool
decode_old (struct ray_cluster *old, const struct admission_request *request, const struct ray_holder *holder)
{
  return request->old_object != NULL && text_eq (request->operation, "UPDATE")
         && ray_cluster_decode_held (old, holder, request->old_object, namespace_of (request), NULL) == 0;
}

static void
examine (const struct admission_request *request, struct admission_verdict *verdict, const struct ray_holder *holder,
         const struct admission_policy *policy)
{
  const struct ray_options *options = policy->ray;
  cleanup_cluster struct ray_cluster cluster = { 0 }, before = { 0 };
  cleanup_problems struct ray_problems found = { 0 };
  cleanup_problems struct ray_problems old = { 0 };
  struct error why = { "" };
  bool update;

  if (ray_cluster_decode_held (&cluster, holder, request->object, namespace_of (request), &why) < 0)
    {
      admission_deny (verdict, 422, why.message);
      return;
    }
  if (cluster.managed_elsewhere)
    return;
  update = decode_old (&before, request, holder);
  ray_validate (&cluster, options, &found);
  if (found.count > 0)
    {
      if (update)
        ray_validate (&before, options, &old);
      judge (verdict, &found, &old, old.count > 0 && update_only_scales (request, holder));
    }
  if (!verdict->allowed)
    return;
  warn_about (verdict, &cluster, options);
  if (update && holder->spec_key == NULL) /* what holds a cluster's spec has no Pods */
    admission_warn_of_holes (policy, &cluster, &before, verdict);
}

static void
log_denial (const struct admission_request *request, const struct admission_verdict *verdict)
{
  log_info ("denied", LF_STR ("kind", request->kind), LF_STR ("namespace", request->namespace),
            LF_STR ("name", admission_object_name (request)), LF_STR ("operation", request->operation),
            LF_STR ("reason", verdict->message));
}

int
admission_validate_raycluster (void *data, const struct admission_request *request, struct admission_verdict *verdict,
                               struct error *err)
{
  const struct admission_policy *policy = data;
  const struct ray_holder *holder = admission_holder (request);

  (void) err;
  verdict->allowed = true;
  if (holder == NULL || nothing_to_judge (request, holder))
    return 0;
  examine (request, verdict, holder, policy);
  if (!verdict->allowed)
    log_denial (request, verdict);
  return 0;
}
