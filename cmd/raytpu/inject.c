/* inject.c - `raytpu inject`: prints Pods as the webhook would have admitted them, those of workloads too. */
#include "raytpu.h"

/* ---- -o env ---- */

/* What `after` has and `before` had not, as the listing of the tutorial prints it (fixtures *.env): an entry with
 * valueFrom has no value before its Pod runs. */
static char *
added_lines (const cJSON *before, const cJSON *after)
{
  struct buf lines = { 0 };
  const cJSON *entry, *env = json_get (after, "env");

  if (!cJSON_IsArray (env))
    return buf_take (&lines);
  cJSON_ArrayForEach (entry, env)
    {
      const char *name = json_str (entry, "name");

      if (name != NULL && json_find (json_get (before, "env"), "name", name) == NULL)
        buf_printf (&lines, "%s=%s\n", name, log_nonnull (json_str (entry, "value")));
    }
  return buf_take (&lines);
}

static void
print_env (struct session *session, const struct document *doc, const cJSON *before, const cJSON *after)
{
  static const char *const sections[] = { "containers", "initContainers" };

  for (size_t s = 0; s < ARRAY_LEN (sections); s++)
    {
      const cJSON *old = json_get (before, "spec", sections[s]), *new = json_get (after, "spec", sections[s]);

      if (!cJSON_IsArray (old) || !cJSON_IsArray (new))
        continue;
      for (old = old->child, new = new->child; old != NULL &&new != NULL; old = old->next, new = new->next)
        {
          cleanup_free char *lines = added_lines (old, new);
          cleanup_free char *title = xasprintf ("pod/%s container/%s", doc->name, log_nonnull (json_str (new, "name")));

          output_env (&session->out, title, lines);
        }
    }
}

/* ---- one Pod ---- */

/* As much of the Pod schema as an answer needs to make sense. */
static bool
has_containers (struct session *session, const struct document *doc)
{
  const cJSON *containers = json_get (doc->object, "spec", "containers"), *item;
  int i = 0;

  if (!cJSON_IsArray (containers) || containers->child == NULL)
    {
      document_error (session, doc, "spec.containers: is %s: a Pod needs a list of at least one container",
                      cJSON_IsArray (containers) ? "empty" : json_type_name (containers));
      return false;
    }
  cJSON_ArrayForEach (item, containers)
    {
      if (!cJSON_IsObject (item))
        {
          document_error (session, doc, "spec.containers[%d]: must be an object, not %s", i, json_type_name (item));
          return false;
        }
      i++;
    }
  return true;
}

static bool
has_text (const cJSON *texts, const char *text)
{
  const cJSON *t;

  cJSON_ArrayForEach (t, texts)
    if (text_eq (cJSON_GetStringValue (t), text))
      return true;
  return false;
}

/* What all Pods of an object say is said once. */
static void
print_warnings (struct session *session, const struct document *doc, const struct tpu_injection *injection)
{
  const cJSON *warning;

  cJSON_ArrayForEach (warning, injection->warnings)
    {
      const char *text = cJSON_GetStringValue (warning);

      if (session->said != NULL && has_text (session->said, text))
        continue;
      if (session->said != NULL)
        json_push_str (session->said, text);
      report ("warning", "pod %.253s: %s", *doc->name != '\0' ? doc->name : "(no name)", text);
    }
}

static void
take_pod (struct session *session, const struct document *doc)
{
  struct tpu_options options = tpu_default_options;
  cleanup_injection struct tpu_injection injection = { 0 };
  cleanup_json cJSON *admitted = NULL;
  struct error err = { "" };

  session->out.need_titles = ++session->pods > 1;
  if (!has_containers (session, doc))
    return;
  options.strict = session->settings->strict;
  admitted = cJSON_Duplicate (doc->object, true);
  if (tpu_inject (&injection, doc->object, &options, &err) < 0
      || json_patch_apply (admitted, injection.patch, &err) < 0)
    {
      document_error (session, doc, "%s", err.message);
      return;
    }
  print_warnings (session, doc, &injection);
  if (session->settings->format == OUTPUT_ENV)
    print_env (session, doc, doc->object, admitted);
  else
    output_object (&session->out, admitted);
}

/* ---- Pods of other objects ---- */

/* A Pod that came of the document's object. */
static void
take_created (struct session *session, const struct document *doc, const cJSON *object)
{
  const char *name = json_str (object, "metadata", "name");
  struct document pod = *doc;

  if (!text_eq (json_str (object, "kind"), "Pod"))
    return;
  pod.object = (cJSON *) (uintptr_t) object; /* take_pod only reads it */
  pod.kind = "Pod";
  pod.name = name ? name : log_nonnull (json_str (object, "metadata", "generateName"));
  take_pod (session, &pod);
}

static void
take_workload (struct session *session, const struct document *doc)
{
  cleanup_json cJSON *pods = NULL, *said = cJSON_CreateArray ();
  struct error err = { "" };
  const cJSON *pod;

  if (workload_expand (&pods, doc->object, &err) < 0)
    {
      document_error (session, doc, "%s", err.message);
      return;
    }
  session->said = said;
  cJSON_ArrayForEach (pod, pods)
    if (session->out.failed == 0)
      take_created (session, doc, pod);
  session->said = NULL;
}

static void
take_cluster (struct session *session, const struct document *doc)
{
  cleanup_json cJSON *said = cJSON_CreateArray ();

  session->said = said;
  cluster_play (session, doc, false, take_created);
  session->said = NULL;
}

/* ---- the command ---- */

static int
inject (const struct settings *settings)
{
  static const take_fn takes[ROLE_MAX] = { [ROLE_POD] = take_pod,
                                           [ROLE_WORKLOAD] = take_workload,
                                           [ROLE_CLUSTER] = take_cluster,
                                           [ROLE_CLUSTER_HOLDER] = take_cluster };

  return documents_run (settings, takes);
}

const struct command inject_command = {
  .name = "inject",
  .summary = "print Pods, or those a workload makes, with their TPU environment",
  .help = "-f FILE [-o yaml|json|env] [--strict]\n"
          "\n"
          "Prints each Pod in FILE as the webhook admits it: with the environment, host names and\n"
          "slice affinity that its place in a TPU slice calls for. A Pod without google.com/tpu is\n"
          "printed as it is. Warnings go to standard error.\n"
          "\n"
          "A Job, CronJob, JobSet, LeaderWorkerSet, StatefulSet, Deployment, RayCluster, RayJob or\n"
          "RayService stands for the Pods that its controller creates when nothing is running yet. A\n"
          "name that ends in random characters is printed as a generateName; that of a RayJob's or\n"
          "RayService's cluster as NAME-xxxxx, and that of a CronJob's Job as NAME-00000000.\n"
          "\n"
          "FILE is YAML or JSON and may hold several documents and Lists; objects of other kinds\n"
          "are skipped with a note on standard error.\n"
          "\n"
          "  -f, --filename FILE  read FILE; - is standard input\n"
          "  -o, --output FORMAT  yaml: documents separated by --- (default)\n"
          "                       json: one v1 List\n"
          "                       env:  the variables that were added, as NAME=VALUE lines. When\n"
          "                             there are several Pods, or several containers with such\n"
          "                             variables, each container's lines follow a comment line\n"
          "                             \"# pod/NAME container/NAME\". A variable that is read from\n"
          "                             a field of the running Pod has no value yet and is\n"
          "                             printed as NAME=, as kubectl -o jsonpath does\n"
          "      --strict         refuse, as the webhook with --strict does, a Pod whose place in\n"
          "                       its slice cannot be known, instead of warning\n"
          "  -h, --help           print this\n"
          "\n"
          "Exit code: 0; 1 when an object is invalid (a line on standard error each, the Pods around\n"
          "it are still printed) or FILE cannot be read; 2 for wrong usage.\n",
  .formats = 1U << OUTPUT_YAML | 1U << OUTPUT_JSON | 1U << OUTPUT_ENV,
  .takes = RAYTPU_TAKES_FILE | RAYTPU_TAKES_STRICT,
  .run = inject,
};
