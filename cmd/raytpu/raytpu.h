/* raytpu.h - what the files of the offline command line share. A command reads one FILE, hands each object in it to the
 * row of its table that knows the object's kind, and prints what comes of it. Nothing here talks to a cluster: the
 * answers are those of pkg/ray and pkg/tpu. */
#ifndef RAYTPU_RAYTPU_H
#define RAYTPU_RAYTPU_H

#include <getopt.h>
#include <stdio.h>

#include "ray/ray.h"
#include "workload/workload.h"

enum
{
  RAYTPU_OK = 0,
  RAYTPU_FAILED = 1, /* an object is invalid, or something could not be read or written */
  RAYTPU_USAGE = 2,
};

/* ---- output.c: standard output, and messages on standard error ---- */

enum output_format
{
  OUTPUT_TEXT, /* for people */
  OUTPUT_YAML, /* documents separated by "---" */
  OUTPUT_JSON, /* one v1 List, also of nothing */
  OUTPUT_ENV,  /* NAME=VALUE lines */
  OUTPUT_FORMAT_MAX
};

extern const char *const output_format_names[OUTPUT_FORMAT_MAX];

struct env_block
{
  char *title, *lines;
};

/* Zero-initialise but for the format. Objects are written as they come, so that memory does not grow with their number.
 */
struct output
{
  enum output_format format;
  size_t objects;
  bool need_titles;         /* env: blocks get a comment line even when there is only one */
  struct env_block *blocks; /* env: kept until the end, because a second block decides about the first one's title */
  size_t nblocks, cap;
  int failed; /* errno of the first failed write; later writes do nothing */
};

void output_object (struct output *out, const cJSON *object);
void output_env (struct output *out, const char *title, const char *lines); /* both copied; no lines, no block */
void output_line (struct output *out, const char *text);                    /* text: one line, whatever bytes it has */
/* Writes what is still due. -errno when anything could not be written, standard output's last bytes included. */
int output_end (struct output *out, struct error *err);
void output_free (struct output *out);

/* Prints a text on standard output and checks that it arrived (`--help > /dev/full`). An exit code. */
int output_text (const char *text);

/* "<severity>: <message>" as one line, whatever bytes the values in it have: a manifest's text must not be able to make
 * up further messages or drive the terminal. */
void report (const char *severity, const char *fmt, ...) __attribute__ ((format (printf, 2, 3)));
void report_clean (char *text); /* in place: control characters become "?" */

/* ---- documents.c: the objects in FILE ---- */

struct document
{
  cJSON *object;                         /* borrowed; a command may change it */
  const char *api_version, *kind, *name; /* "" when absent; name is generateName when there is only that */
  const char *file;                      /* for people */
  int number, item;                      /* from 1; item is 0 outside of a List */
  const char *path;                      /* "items[0]." in a List, else "" */
};

struct settings
{
  const char *program;   /* "raytpu render" or "kubectl raytpu render" */
  const char *file;      /* "-": standard input */
  const char *namespace; /* of objects without one */
  enum output_format format;
  bool strict;
  bool want_lines;          /* document_line will be asked */
  const char *arguments[2]; /* what is no option; NULL when absent */
};

/* What an object is to the commands: documents.c knows the kinds. */
enum role
{
  ROLE_POD,
  ROLE_WORKLOAD, /* pkg/workload's */
  ROLE_CLUSTER,
  ROLE_CLUSTER_HOLDER, /* RayJob, RayService */
  ROLE_MAX
};

struct session;

/* Prints to session->out and reports what is wrong. */
typedef void (*take_fn) (struct session *session, const struct document *doc);

struct session
{
  const struct settings *settings;
  const take_fn *takes; /* by role; objects of those that are NULL are skipped with a note */
  struct output out;
  size_t pods;              /* seen so far (inject) */
  cJSON *said;              /* warnings about the Pods of this object so far; NULL: all are printed */
  bool failed;              /* an object was invalid */
  struct yaml_lines *lines; /* NULL when not wanted or FILE is no YAML */
};

/* The whole run of a command that reads FILE, with what it does with objects of each role: an exit code. */
int documents_run (const struct settings *settings, const take_fn takes[ROLE_MAX]);

/* "<severity>: FILE: document N: KIND NAME: <message>"; document_error also makes the run fail. */
void document_report (const char *severity, const struct document *doc, const char *fmt, ...)
    __attribute__ ((format (printf, 3, 4)));
/* Line of a field of the object; 0 when that is not known. */
size_t document_line (const struct session *session, const struct document *doc, const char *field);
#define document_error(session, doc, ...) ((session)->failed = true, document_report ("error", (doc), __VA_ARGS__))

/* ---- clusters.c: RayClusters, and those inside of RayJobs and RayServices ---- */

/* Takes what was created. */
typedef void (*created_fn) (struct session *session, const struct document *doc, const cJSON *object);

/* Plays the controller against an empty cluster and hands over what it creates, in its order; reports what is wrong
 * with the cluster instead. The document is a RayCluster, or a RayJob or RayService, whose cluster is then played.
 * inject_tpu: Pods are born with their TPU environment. */
void cluster_play (struct session *session, const struct document *doc, bool inject_tpu, created_fn created);

/* ---- commands: one file each ---- */

/* Options besides --output and --help. */
enum
{
  RAYTPU_TAKES_FILE = 1, /* else arguments */
  RAYTPU_TAKES_NAMESPACE = 2,
  RAYTPU_TAKES_STRICT = 4,
};

struct command
{
  const char *name, *summary;
  const char *help; /* after the usage line */
  unsigned formats; /* bit per enum output_format; the first is the default */
  unsigned takes;   /* RAYTPU_TAKES_* */
  int (*run) (const struct settings *settings);
};

extern const struct command render_command, inject_command, validate_command, topology_command;

#endif
