/* render.c - `raytpu render`: plays the controller against an empty cluster and prints what it creates. */
#include "raytpu.h"

/* What the plans so far made; the next plan goes on from there. */
struct world
{
  struct session *session;
  const struct document *doc;
  const struct ray_cluster *cluster;
  struct ray_options options;
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
      {
        if (children.items[i].kind == RAY_CHILD_SECRET)
          document_report ("note", w->doc, "Secret %s: the controller adds %s, a random token",
                           ray_child_name (&children.items[i]), RAY_AUTH_TOKEN_KEY);
        output_object (&w->session->out, children.items[i].object);
      }
}

/* The next plan reads it where the controller would have stored it. */
static void
write_ledger (struct world *w, const char *ledger)
{
  json_set_str (json_obj (json_obj (w->doc->object, "metadata"), "annotations"), RAY_ANNOTATION_SLICES, ledger);
}

/* A pod is built complete, and what there was to say about it is lost on the way; asked once more about the finished
 * pod, tpu_inject has nothing to add and the same to say. All pods of a group say the same, so the first one speaks. */
static void
warn_about_group (const struct world *w, const struct ray_op *op, const cJSON *pod)
{
  cleanup_injection struct tpu_injection injection = { 0 };
  const cJSON *warning;

  if (op->identity.replica_index != 0 || op->identity.host_index != 0
      || tpu_inject (&injection, pod, &w->options.tpu, NULL) < 0)
    return;
  cJSON_ArrayForEach (warning, injection.warnings)
    document_report ("warning", w->doc, "group %s: %s", op->group->name, cJSON_GetStringValue (warning));
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
  warn_about_group (w, op, pod);
  output_object (&w->session->out, pod);
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

/* ---- the command ---- */

static void
report_problems (const struct document *doc, const char *severity, const struct ray_problems *problems)
{
  for (size_t i = 0; i < problems->count; i++)
    {
      const struct ray_problem *p = &problems->items[i];

      document_report (severity, doc, "%s: %s", p->field, p->message);
    }
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

static void
take_cluster (struct session *session, const struct document *doc)
{
  cleanup_cluster struct ray_cluster cluster = { 0 };
  cleanup_problems struct ray_problems problems = { 0 };
  cleanup_problems struct ray_problems unsupported = { 0 };
  cleanup_world struct world w
      = { .session = session, .doc = doc, .cluster = &cluster, .options = ray_default_options };
  struct error err = { "" };

  if (ray_cluster_decode (&cluster, doc->object, session->settings->namespace, &err) < 0)
    {
      document_error (session, doc, "%s", err.message);
      return;
    }
  if (cluster.managed_elsewhere)
    {
      document_report ("note", doc, "spec.managedBy: is another controller, which creates its objects: skipped");
      return;
    }
  w.options.version = VERSION;
  ray_validate (&cluster, &w.options, &problems);
  report_problems (doc, "error", &problems);
  session->failed |= problems.count > 0;
  if (problems.count > 0)
    return;
  ray_unsupported (&cluster, &unsupported);
  report_problems (doc, "warning", &unsupported);
  note_inaction (doc, &cluster);
  if (!cluster.deleting)
    create_children (&w);
  play (&w);
}

static const struct kind rows[] = {
  { "ray.io/v1", "RayCluster", take_cluster },
};

static int
render (const struct settings *settings)
{
  return documents_run (settings, &(struct kinds){ .rows = rows, .count = ARRAY_LEN (rows), .skip_others = true });
}

static const struct option options[] = {
  { "filename", required_argument, NULL, 'f' },
  { "namespace", required_argument, NULL, 'n' },
  { "output", required_argument, NULL, 'o' },
  { "help", no_argument, NULL, 'h' },
  { NULL, 0, NULL, 0 },
};

const struct command render_command = {
  .name = "render",
  .summary = "print every object the controller would create for a RayCluster",
  .help = "-f FILE [-n NAMESPACE] [-o yaml|json]\n"
          "\n"
          "Prints the Services, other owned objects and Pods that the controller creates for each\n"
          "RayCluster in FILE, in the order in which it creates them: Services, the autoscaler's\n"
          "identity, Ingress, token Secret (without the random token), volume claim,\n"
          "NetworkPolicies, head Pod, then the worker Pods by group, replica and host. Pods carry\n"
          "their TPU environment. Their names are the same on every run, and the ones in a cluster\n"
          "when FILE has the RayCluster's uid.\n"
          "\n"
          "FILE is YAML or JSON and may hold several documents and Lists; objects of other kinds\n"
          "are skipped with a note on standard error.\n"
          "\n"
          "  -f, --filename FILE        read FILE; - is standard input\n"
          "  -n, --namespace NAMESPACE  of objects that name none (default: default)\n"
          "  -o, --output FORMAT        yaml: documents separated by --- (default)\n"
          "                             json: one v1 List\n"
          "  -h, --help                 print this\n"
          "\n"
          "Exit code: 0; 1 when a RayCluster is invalid (every problem is a line on standard\n"
          "error, the other clusters are still printed) or FILE cannot be read; 2 for wrong usage.\n",
  .short_options = ":f:n:o:h",
  .long_options = options,
  .formats = 1U << OUTPUT_YAML | 1U << OUTPUT_JSON,
  .run = render,
};
