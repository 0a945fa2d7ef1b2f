/* validate.c - RayClusters: refuses what cannot run, but never holds against an update what is stored already. */
#include "admission/admission_internal.h"

#include <errno.h>
#include <string.h>

#define DENIAL_MAX 4096

/* What makes two problems the same. Indices are left out: "workerGroupSpecs[1].numOfHosts" is the same problem after
 * group 0 was removed. Should two different ones ever share a hash, an update with a problem is let through; the
 * controller still sees it. */
static uint64_t
problem_hash (const struct ray_problem *problem)
{
  uint64_t hash = text_hash_str (0, log_nonnull (problem->message));

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
sorted_marks (const struct ray_problems *problems)
{
  struct mark *marks = xcalloc (problems->count + 1, sizeof (*marks));

  for (size_t i = 0; i < problems->count; i++)
    marks[i] = (struct mark){ .hash = problem_hash (&problems->items[i]), .index = i };
  qsort (marks, problems->count, sizeof (*marks), compare_marks);
  return marks;
}

/* For each problem found whether the old object had it. Each old problem excuses one new one, so that a second group
 * with the first one's mistake is new. */
static bool *
find_excused (const struct ray_problems *found, const struct ray_problems *old)
{
  bool *excused = xcalloc (found->count + 1, sizeof (*excused));
  cleanup_free struct mark *news = sorted_marks (found);
  cleanup_free struct mark *olds = sorted_marks (old);

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
judge (struct admission_verdict *verdict, const struct ray_problems *found, const struct ray_problems *old)
{
  cleanup_free bool *excused = find_excused (found, old);
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

/* What the spec asks for and this version leaves out: no reason to refuse, but the user should know. */
static void
warn_unsupported (struct admission_verdict *verdict, const struct ray_cluster *cluster)
{
  cleanup_problems struct ray_problems problems = { 0 };

  ray_unsupported (cluster, &problems);
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

static bool
nothing_to_judge (const struct admission_request *request)
{
  const cJSON *object = request->object, *old = request->old_object;

  if (json_str (object, "metadata", "deletionTimestamp") != NULL)
    return true;
  return old != NULL && json_equal (json_get (object, "spec"), json_get (old, "spec"));
}

/* A stored object that cannot be decoded has no problems to compare with; it excuses nothing. */
static void
old_problems (struct ray_problems *problems, const struct admission_request *request, const struct ray_options *options)
{
  cleanup_cluster struct ray_cluster cluster = { 0 };

  if (request->old_object == NULL || !text_eq (request->operation, "UPDATE")
      || ray_cluster_decode (&cluster, request->old_object, namespace_of (request), NULL) < 0)
    return;
  ray_validate (&cluster, options, problems);
}

static void
examine (const struct admission_request *request, struct admission_verdict *verdict, const struct ray_options *options)
{
  cleanup_cluster struct ray_cluster cluster = { 0 };
  cleanup_problems struct ray_problems found = { 0 };
  cleanup_problems struct ray_problems old = { 0 };
  struct error why = { "" };

  if (ray_cluster_decode (&cluster, request->object, namespace_of (request), &why) < 0)
    {
      admission_deny (verdict, 422, why.message);
      return;
    }
  if (cluster.managed_elsewhere)
    return;
  ray_validate (&cluster, options, &found);
  if (found.count > 0)
    {
      old_problems (&old, request, options);
      judge (verdict, &found, &old);
    }
  if (verdict->allowed)
    warn_unsupported (verdict, &cluster);
}

static void
log_denial (const struct admission_request *request, const struct admission_verdict *verdict)
{
  const char *name = json_str (request->object, "metadata", "name");

  log_info ("denied RayCluster", LF_STR ("namespace", request->namespace), LF_STR ("name", name ? name : request->name),
            LF_STR ("operation", request->operation), LF_STR ("reason", verdict->message));
}

int
admission_validate_raycluster (void *data, const struct admission_request *request, struct admission_verdict *verdict,
                               struct error *err)
{
  const struct admission_policy *policy = data;

  (void) err;
  verdict->allowed = true;
  if (!text_eq (request->group, "ray.io") || !text_eq (request->kind, "RayCluster") || request->subresource[0] != '\0'
      || !(text_eq (request->operation, "CREATE") || text_eq (request->operation, "UPDATE"))
      || nothing_to_judge (request))
    return 0;
  examine (request, verdict, policy->ray);
  if (!verdict->allowed)
    log_denial (request, verdict);
  return 0;
}
