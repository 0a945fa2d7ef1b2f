/* kuberay_metrics.c - the series about RayClusters under KubeRay's names (facts/kuberay.md §5.3), so that the
 * dashboards and alerts people have keep working. Three series per RayCluster at most. */
#include "manager/manager_internal.h"

#define LABELS "{name=\"%s\",namespace=\"%.*s\",uid=\"%s\""
#define LABEL_VALUES(c) (c)->name, (c)->namespace_len, (c)->namespace, (c)->uid

static const struct
{
  const char *name, *help;
} metrics[] = {
  { "kuberay_cluster_info", "Always 1, for every RayCluster; owner_kind is None, RayJob or RayService." },
  { "kuberay_cluster_condition_provisioned", "Always 1; condition is whether the RayCluster is provisioned." },
  { "kuberay_cluster_provisioned_duration_seconds",
    "From the creation of a provisioned RayCluster to when it last became so." },
};

/* Samples of one metric must stand together, and the clusters are gone through once. */
struct samples
{
  struct buf of[ARRAY_LEN (metrics)];
};

/* Nothing needs escaping: names, uids and label values of objects have neither quotes nor backslashes. */
static void
add_cluster (void *data, const struct controller_cluster *c)
{
  struct samples *samples = data;

  buf_printf (&samples->of[0], "%s" LABELS ",owner_kind=\"%s\"} 1\n", metrics[0].name, LABEL_VALUES (c), c->owner_kind);
  buf_printf (&samples->of[1], "%s" LABELS ",condition=\"%s\"} 1\n", metrics[1].name, LABEL_VALUES (c),
              c->provisioned ? "true" : "false");
  if (c->provisioned_after_ms >= 0)
    buf_printf (&samples->of[2], "%s" LABELS "} %.15g\n", metrics[2].name, LABEL_VALUES (c),
                (double) c->provisioned_after_ms / 1e3);
}

void
kuberay_metrics_print (struct buf *out, struct controller *controller)
{
  struct samples samples = { 0 };

  controller_each_cluster (controller, add_cluster, &samples);
  for (size_t i = 0; i < ARRAY_LEN (metrics); i++)
    {
      buf_printf (out, "# HELP %s %s\n# TYPE %s gauge\n", metrics[i].name, metrics[i].help, metrics[i].name);
      buf_str (out, buf_text (&samples.of[i]));
      buf_free (&samples.of[i]);
    }
}
