/* clusters.c - what the controller makes of a RayCluster, played against an empty cluster. */
#include "raytpu.h"

/* What the plans so far made; the next plan goes on from there. */
struct world
{
  struct session *session;
  const struct document *doc;
  const struct ray_cluster *cluster;
  struct ray_options options;
  created_fn created;
  const struct ray_pod **pods; /* owned */
  size_t npods, pods_cap;
};

static void
world_free (struct world *w)
{
  for (size_t i = 0; i < w->npods; i++)
    free ((void *) (uintptr_t) w->pods[i]);
  free (w->pods);
}
#define cleanup_world __attribute__ ((cleanup (world_free)))

/* ---- one operation each ---- */

static void
create_children (struct world *w)
{
  cleanup_children struct ray_children children = { 0 };

  ray_children_make (&children, w->cluster, &w->options);
  for (size_t i = 0; i < children.count; i++)
    if (children.items[i].external)
      document_report ("note", w->doc, "%s %s must exist: the spec names it",
                       ray_child_types[children.items[i].kind].kind, ray_child_name (&children.items[i]));
    else
      w->created (w->session, w->doc, children.items[i].object);
}

/* The next plan reads it where the controller would have stored it. */
static void
write_ledger (struct world *w, const char *ledger)
{
  json_set_str (json_obj (json_obj (w->doc->object, "metadata"), "annotations"), RAY_ANNOTATION_SLICES, ledger);
}

/* The cluster a file came from has its pods; here there are none, and that must not look like a loss. */
static void
forget_complete (struct world *w)
{
  const char *text = json_str (w->doc->object, "metadata", "annotations", RAY_ANNOTATION_SLICES);
  cleanup_free char *unseen = text ? ray_slices_unseen (text) : NULL;

  if (unseen != NULL)
    write_ledger (w, unseen);
}

static void
create_pod (struct world *w, const struct ray_op *op)
{
  cleanup_json cJSON *pod = NULL;
  struct error err = { "" };

  if (ray_build_pod (&pod, w->cluster, op->group, &op->identity, &w->options, &err) < 0)
    {
      document_error (w->session, w->doc, "%s", err.message);
      return;
    }
  w->created (w->session, w->doc, pod);
  w->pods = xgrow (w->pods, w->npods, &w->pods_cap, sizeof (*w->pods));
  w->pods[w->npods++] = ray_pod_digest (pod);
}

/* A plan for an empty cluster deletes nothing. */
static void (*const operations[]) (struct world *w, const struct ray_op *op) = {
  [RAY_OP_CREATE_POD] = create_pod,
};

/* Whether the plan created pods, so that another one may follow. */
static bool
carry_out (struct world *w, const struct ray_plan *plan)
{
  size_t before = w->npods;

  if (plan->ledger != NULL)
    write_ledger (w, plan->ledger);
  for (size_t i = 0; i < plan->nops && w->session->out.failed == 0; i++)
    if (plan->ops[i].kind < ARRAY_LEN (operations) && operations[plan->ops[i].kind] != NULL)
      operations[plan->ops[i].kind](w, &plan->ops[i]);
  return w->npods > before;
}

/* One plan creates a bounded number of pods, as in the controller: large clusters take several. */
static void
play (struct world *w)
{
  size_t wanted = 1 + (size_t) ray_cluster_desired_workers (w->cluster);
  bool more = true;

  while (more && w->npods < wanted && w->session->out.failed == 0)
    {
      cleanup_plan struct ray_plan plan = { 0 };
      struct ray_observed observed = { .pods = w->pods, .npods = w->npods };

      ray_plan_make (&plan, w->cluster, &observed, &ray_default_plan_options, 0);
      more = carry_out (w, &plan);
    }
}

/* ---- the cluster ---- */

static void
report_problems (const struct document *doc, const char *severity, const struct ray_problems *problems)
{
  for (size_t i = 0; i < problems->count; i++)
    document_report (severity, doc, "%s: %s", problems->items[i].field, problems->items[i].message);
}

/* Why the controller would create less than the spec describes. */
static void
note_inaction (const struct document *doc, const struct ray_cluster *cluster)
{
  if (cluster->deleting)
    document_report ("note", doc, "metadata.deletionTimestamp: is set: nothing is created for a cluster that goes");
  else if (ray_suspension_of (cluster) != RAY_ACTIVE)
    document_report ("note", doc, "spec.suspend: is, or was, true: a suspended cluster has Services but no Pods");
}

/* Whether there is something to play; what is wrong, and what is worth knowing, is reported. */
static bool
examine (struct session *session, const struct document *doc, const struct ray_holder *holder,
         const struct ray_options *options)
{
  cleanup_cluster struct ray_cluster cluster = { 0 };
  cleanup_problems struct ray_problems problems = { 0 }, warnings = { 0 };
  struct error err = { "" };

  if (ray_cluster_decode_held (&cluster, holder, doc->object, session->settings->namespace, &err) < 0)
    {
      document_error (session, doc, "%s", err.message);
      return false;
    }
  if (cluster.managed_elsewhere)
    {
      document_report ("note", doc, "spec.managedBy: is another controller, which creates its objects: skipped");
      return false;
    }
  ray_validate (&cluster, options, &problems);
  report_problems (doc, "error", &problems);
  session->failed |= problems.count > 0;
  if (problems.count > 0)
    return false;
  if (options->inject_tpu)
    ray_warnings (&cluster, options, &warnings);
  else
    ray_unsupported (&cluster, &warnings); /* who injects the pods says the rest */
  report_problems (doc, "warning", &warnings);
  note_inaction (doc, &cluster);
  return true;
}

/* The RayCluster that the holder's controller makes. Its name ends in five random characters, which are not known
 * before. */
static cJSON *
make_cluster (const cJSON *object, const struct ray_holder *holder)
{
  cleanup_free char *name = xasprintf ("%s-xxxxx", log_nonnull (json_str (object, "metadata", "name")));
  cJSON *cluster = cJSON_CreateObject (), *metadata;

  json_set_str (cluster, "apiVersion", "ray.io/v1");
  json_set_str (cluster, "kind", "RayCluster");
  metadata = json_obj (cluster, "metadata");
  json_set_str (metadata, "name", name);
  json_set_str (metadata, "namespace", json_str (object, "metadata", "namespace"));
  json_set_copy (metadata, "labels", json_get (object, "metadata", "labels"));
  json_set_copy (cluster, "spec", ray_holder_spec (holder, object));
  return cluster;
}

void
cluster_play (struct session *session, const struct document *doc, bool inject_tpu, created_fn created)
{
  const struct ray_holder *holder = ray_holder_find (doc->kind);
  cleanup_json cJSON *made = NULL;
  cleanup_cluster struct ray_cluster cluster = { 0 };
  struct document played = *doc;
  cleanup_world struct world w
      = { .session = session, .doc = &played, .cluster = &cluster, .options = ray_default_options, .created = created };

  w.options.version = VERSION;
  w.options.inject_tpu = inject_tpu;
  if (!examine (session, doc, holder, &w.options))
    return;
  if (holder->spec_key != NULL)
    played.object = made = make_cluster (doc->object, holder);
  if (ray_cluster_decode (&cluster, played.object, session->settings->namespace, NULL) < 0)
    return; /* which examine has done before */
  forget_complete (&w);
  if (!cluster.deleting)
    create_children (&w);
  play (&w);
}
