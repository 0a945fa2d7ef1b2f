/* topology.c - `raytpu topology`: which TPU slices there are, and what their Pods are told. */
#include "raytpu.h"

#include <inttypes.h>

/* A way to have a topology: rows of the table. */
struct row
{
  const struct tpu_offer *offer;
  const struct tpu_machine *machine;
  const char *topology;
  int64_t chips, hosts;
};

/* ---- what Pods are told, from injection itself ---- */

/* Worker 0 of Job NAME with Service SERVICE, injected; NULL when such a Pod is refused. */
static cJSON *
example_env (const struct row *row)
{
  cleanup_json cJSON *pod = cJSON_CreateObject ();
  cleanup_injection struct tpu_injection injection = { 0 };
  cleanup_free char *chips = xasprintf ("%d", row->machine->chips);
  cJSON *metadata = json_obj (pod, "metadata"), *spec = json_obj (pod, "spec"), *container, *env;

  json_set_str (json_obj (metadata, "labels"), "batch.kubernetes.io/job-name", "job");
  json_set_str (json_obj (metadata, "annotations"), "batch.kubernetes.io/job-completion-index", "0");
  json_set_str (spec, "hostname", "job-0");
  json_set_str (spec, "subdomain", "service");
  json_set_str (json_obj (spec, "nodeSelector"), tpu_default_options.accelerator_labels[0], row->offer->label);
  json_set_str (json_obj (spec, "nodeSelector"), tpu_default_options.topology_labels[0], row->topology);
  container = json_push_obj (json_arr (spec, "containers"));
  json_set_str (json_obj (json_obj (container, "resources"), "limits"), "google.com/tpu", chips);
  env = json_arr (container, "env");
  if (tpu_inject (&injection, pod, NULL, NULL) < 0 || json_patch_apply (pod, injection.patch, NULL) < 0)
    return NULL;
  return cJSON_Duplicate (env, true);
}

static char *
accelerator_type (const struct row *row)
{
  return xasprintf ("%s-%" PRId64, row->offer->type_prefix, row->chips * row->offer->cores_per_chip);
}

/* ---- text ---- */

static void
print_heading (struct output *out)
{
  cleanup_free char *line = xasprintf ("%-22s %-10s %6s %6s  %-18s %s", "ACCELERATOR", "TOPOLOGY", "CHIPS", "HOSTS",
                                       "MACHINE", "TPU_ACCELERATOR_TYPE");

  output_line (out, line);
}

static void
print_row (struct output *out, const struct row *row)
{
  cleanup_free char *type = accelerator_type (row);
  cleanup_free char *line = xasprintf ("%-22s %-10s %6" PRId64 " %6" PRId64 "  %-18s %s", row->offer->label,
                                       row->topology, row->chips, row->hosts, row->machine->type, type);

  output_line (out, line);
}

static void
print_env (struct output *out, const struct row *row)
{
  cleanup_json cJSON *env = example_env (row);
  cleanup_free char *title
      = xasprintf ("# %" PRId64 " x %s: worker 0 of Job \"job\" with Service \"service\", google.com/tpu: %d",
                   row->hosts, row->machine->type, row->machine->chips);
  const cJSON *entry;

  output_line (out, "");
  output_line (out, title);
  cJSON_ArrayForEach (entry, env)
    {
      cleanup_free char *line = xasprintf ("%s=%s", json_str (entry, "name"), log_nonnull (json_str (entry, "value")));

      output_line (out, line);
    }
}

/* ---- JSON ---- */

static cJSON *
row_json (const struct row *row, bool with_env)
{
  cJSON *object = cJSON_CreateObject ();
  cleanup_free char *type = accelerator_type (row);
  const struct tpu_accelerator *a = tpu_accelerator_find (row->offer->label);

  json_set_str (object, "accelerator", row->offer->label);
  json_set_str (object, "generation", a->generation);
  json_set_str (object, "topology", row->topology);
  json_set_int (object, "chips", row->chips);
  json_set_int (object, "hosts", row->hosts);
  json_set_int (object, "chipsPerHost", row->machine->chips);
  json_set_int (object, "devicesPerChip", a->devices_per_chip);
  json_set_str (object, "machineType", row->machine->type);
  json_set_str (object, "acceleratorType", type);
  if (with_env)
    json_set (object, "env", example_env (row));
  return object;
}

/* ---- the command ---- */

struct listing
{
  struct output out;
  cJSON *rows; /* JSON; NULL: text */
  bool with_env;
  size_t count;
};

static void
list_row (struct listing *l, const struct row *row)
{
  if (l->rows != NULL)
    json_push (l->rows, row_json (row, l->with_env));
  else
    {
      if (l->count == 0)
        print_heading (&l->out);
      print_row (&l->out, row);
    }
  l->count++;
}

static void
list_topology (struct listing *l, const struct tpu_offer *offer, const char *text,
               void (*take) (struct listing *l, const struct row *row))
{
  struct tpu_topology t;

  if (tpu_topology_parse (&t, text, NULL) < 0)
    return;
  for (size_t m = 0; m < ARRAY_LEN (offer->machines) && offer->machines[m].type != NULL; m++)
    if (tpu_offer_fits (&offer->machines[m], &t))
      {
        int64_t chips = tpu_topology_chips (&t);

        take (l, &(struct row){ .offer = offer,
                                .machine = &offer->machines[m],
                                .topology = text,
                                .chips = chips,
                                .hosts = chips / offer->machines[m].chips });
      }
}

static void
list_env (struct listing *l, const struct row *row)
{
  if (l->rows == NULL)
    print_env (&l->out, row);
}

static const struct tpu_offer *
find_offer (const char *label)
{
  const struct tpu_offer *offer;

  for (size_t i = 0; (offer = tpu_offer_at (i)) != NULL; i++)
    if (text_eq (offer->label, label))
      return offer;
  return NULL;
}

static int
unknown_accelerator (const char *label)
{
  cleanup_buf struct buf known = { 0 };

  for (size_t i = 0; tpu_offer_at (i) != NULL; i++)
    buf_printf (&known, "%s%s", i > 0 ? ", " : "", tpu_offer_at (i)->label);
  report ("error", "accelerator %.63s is not known: use one of %s", label, buf_text (&known));
  return RAYTPU_FAILED;
}

static char *
list_topologies (const struct tpu_offer *offer)
{
  struct buf all = { 0 };

  for (size_t i = 0; offer->topologies[i] != NULL; i++)
    buf_printf (&all, "%s%s", i > 0 ? ", " : "", offer->topologies[i]);
  return buf_take (&all);
}

/* The one that was asked for, though it may not be one of the usual. */
static int
list_one (struct listing *l, const struct tpu_offer *offer, const char *text)
{
  const struct tpu_accelerator *a = tpu_accelerator_find (offer->label);
  struct tpu_topology t, instead;
  struct error err = { "" };
  char meant[TPU_TOPOLOGY_SIZE];

  if (tpu_topology_parse (&t, text, &err) < 0)
    {
      report ("error", "%s", err.message);
      return RAYTPU_FAILED;
    }
  if (!tpu_offer_has (a, &t, &instead))
    {
      cleanup_free char *all = list_topologies (offer);

      tpu_topology_print (meant, &instead);
      report ("error", "there is no %s slice of topology %.32s: did you mean %s? Its slices have %d dimensions: %s%s",
              offer->label, text, meant, a->ndims, all,
              offer->cubes_max > 0 ? ", and larger ones of multiples of 4" : "");
      return RAYTPU_FAILED;
    }
  list_topology (l, offer, text, list_row);
  list_topology (l, offer, text, list_env);
  return RAYTPU_OK;
}

static int
list (struct listing *l, const char *label, const char *topology)
{
  const struct tpu_offer *offer = label ? find_offer (label) : NULL;

  if (label != NULL && offer == NULL)
    return unknown_accelerator (label);
  if (offer != NULL && topology != NULL)
    return list_one (l, offer, topology);
  for (size_t i = 0; tpu_offer_at (i) != NULL; i++)
    for (size_t k = 0; (offer == NULL || offer == tpu_offer_at (i)) && tpu_offer_at (i)->topologies[k] != NULL; k++)
      list_topology (l, tpu_offer_at (i), tpu_offer_at (i)->topologies[k], list_row);
  return RAYTPU_OK;
}

static int
topology (const struct settings *settings)
{
  cleanup_json cJSON *rows = settings->format == OUTPUT_JSON ? cJSON_CreateArray () : NULL;
  struct listing l = { .out = { .format = OUTPUT_TEXT }, .rows = rows, .with_env = settings->arguments[1] != NULL };
  int ret = list (&l, settings->arguments[0], settings->arguments[1]);
  struct error err = { "" };

  if (ret == RAYTPU_OK && rows != NULL)
    {
      cleanup_free char *text = json_print_pretty (rows);

      ret = output_text (text);
    }
  else if (output_end (&l.out, &err) < 0)
    {
      report ("error", "%s", err.message);
      ret = RAYTPU_FAILED;
    }
  output_free (&l.out);
  return ret;
}

const struct command topology_command = {
  .name = "topology",
  .summary = "print TPU slices: chips, hosts, machine types, environment",
  .help = "[ACCELERATOR [TOPOLOGY]] [-o text|json]\n"
          "\n"
          "Prints the usual TPU slices of GKE, or of one ACCELERATOR (a value of the node label\n"
          "cloud.google.com/gke-tpu-accelerator, such as tpu-v6e-slice): chips, hosts, and the machine\n"
          "type that they are made of. Ask for the chips of one machine per Pod, and run as many Pods\n"
          "as there are hosts. With a TOPOLOGY also the environment that is injected into worker 0.\n"
          "\n"
          "TPU_ACCELERATOR_TYPE is what the device plugin calls the slice: it counts cores, of which\n"
          "v3, v4, v5p and tpu7x have two per chip.\n"
          "\n"
          "  -o, --output FORMAT  text (default) or json: an array\n"
          "  -h, --help           print this\n"
          "\n"
          "Exit code: 0; 1 when there is no such slice; 2 for wrong usage.\n",
  .formats = 1U << OUTPUT_TEXT | 1U << OUTPUT_JSON,
  .run = topology,
};
