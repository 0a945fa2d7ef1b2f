/* validate.c - `raytpu validate`: what is wrong with manifests, one line a problem, as compilers print them. */
#include "raytpu.h"

/* FILE:LINE: severity: KIND NAME: FIELD: MESSAGE. The line is left out when it is not known. */
static void
print_problem (struct session *session, const struct document *doc, bool warning, const char *field,
               const char *message)
{
  size_t line = document_line (session, doc, field);
  cleanup_buf struct buf text = { 0 };

  buf_str (&text, doc->file);
  if (line > 0)
    buf_printf (&text, ":%zu", line);
  buf_printf (&text, ": %s: %.63s %.253s: %s: %s", warning ? "warning" : "error", doc->kind,
              *doc->name != '\0' ? doc->name : "(no name)", field, message);
  output_line (&session->out, buf_text (&text));
  session->failed |= !warning;
}

/* ---- clusters ---- */

static void
print_problems (struct session *session, const struct document *doc, bool warning, const struct ray_problems *problems)
{
  for (size_t i = 0; i < problems->count; i++)
    print_problem (session, doc, warning, problems->items[i].field, problems->items[i].message);
}

/* The cluster itself, or that of a RayJob or RayService, as the webhook sees it. A RayJob may select a cluster that is
 * there already. */
static void
take_cluster (struct session *session, const struct document *doc)
{
  const struct ray_holder *holder = ray_holder_find (doc->kind);
  cleanup_cluster struct ray_cluster cluster = { 0 };
  cleanup_problems struct ray_problems problems = { 0 }, warnings = { 0 };
  struct error err = { "" };

  if (ray_holder_spec (holder, doc->object) == NULL && json_get (doc->object, "spec", "clusterSelector") != NULL)
    return;
  if (ray_cluster_decode_held (&cluster, holder, doc->object, session->settings->namespace, &err) < 0)
    {
      print_problem (session, doc, false, "spec", err.message);
      return;
    }
  ray_validate (&cluster, &ray_default_options, &problems);
  print_problems (session, doc, false, &problems);
  if (problems.count > 0)
    return;
  ray_warnings (&cluster, &ray_default_options, &warnings);
  print_problems (session, doc, true, &warnings);
}

/* ---- Pods and workloads ---- */

static void
take_workload (struct session *session, const struct document *doc)
{
  cleanup_json cJSON *problems = cJSON_CreateArray ();
  const cJSON *p;

  workload_validate (problems, doc->object, NULL);
  cJSON_ArrayForEach (p, problems)
    print_problem (session, doc, json_bool (p, false, "warning"), json_str (p, "field"), json_str (p, "message"));
}

/* ---- the command ---- */

static int
validate (const struct settings *settings)
{
  static const take_fn takes[ROLE_MAX] = { [ROLE_POD] = take_workload,
                                           [ROLE_WORKLOAD] = take_workload,
                                           [ROLE_CLUSTER] = take_cluster,
                                           [ROLE_CLUSTER_HOLDER] = take_cluster };

  struct settings with_lines = *settings;

  with_lines.want_lines = true;
  return documents_run (&with_lines, takes);
}

const struct command validate_command = {
  .name = "validate",
  .summary = "print what is wrong with manifests, by file, line and field",
  .help = "-f FILE [-n NAMESPACE] [-o text]\n"
          "\n"
          "Prints what would keep the objects in FILE from running on TPU slices, one line a problem:\n"
          "\n"
          "  FILE:LINE: error: KIND NAME: FIELD: MESSAGE\n"
          "\n"
          "RayClusters, and those of RayJobs and RayServices, are checked as the webhook checks them.\n"
          "Pods, Jobs, CronJobs, JobSets, LeaderWorkerSets, StatefulSets and Deployments are checked\n"
          "for what the API server refuses in Pods, and where they ask for google.com/tpu: topology,\n"
          "chips and counts have to agree, and every host needs an index and a name. A warning is\n"
          "about something that runs all the same. Objects of other kinds are skipped with a note on\n"
          "standard error.\n"
          "\n"
          "FILE is YAML or JSON and may hold several documents and Lists.\n"
          "\n"
          "  -f, --filename FILE        read FILE; - is standard input\n"
          "  -n, --namespace NAMESPACE  of objects that name none (default: default)\n"
          "  -o, --output FORMAT        text, the only one\n"
          "  -h, --help                 print this\n"
          "\n"
          "Exit code: 0; 1 when there was an error, not only warnings, or FILE cannot be read; 2 for\n"
          "wrong usage.\n",
  .formats = 1U << OUTPUT_TEXT,
  .takes = RAYTPU_TAKES_FILE | RAYTPU_TAKES_NAMESPACE,
  .run = validate,
};
