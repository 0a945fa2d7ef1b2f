/* render.c - `raytpu render`: prints what the controller creates for a RayCluster. */
#include "raytpu.h"

static void
print (struct session *session, const struct document *doc, const cJSON *object)
{
  (void) doc;
  output_object (&session->out, object);
}

static void
take_cluster (struct session *session, const struct document *doc)
{
  cluster_play (session, doc, true, print);
}

static int
render (const struct settings *settings)
{
  static const take_fn takes[ROLE_MAX] = { [ROLE_CLUSTER] = take_cluster };

  return documents_run (settings, takes);
}

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
  .formats = 1U << OUTPUT_YAML | 1U << OUTPUT_JSON,
  .takes = RAYTPU_TAKES_FILE | RAYTPU_TAKES_NAMESPACE,
  .run = render,
};
