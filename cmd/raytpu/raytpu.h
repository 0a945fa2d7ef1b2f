/* raytpu.h - what the files of the offline command line share. A command reads one FILE, hands each object in it to the
 * row of its table that knows the object's kind, and prints what comes of it. Nothing here talks to a cluster: the
 * answers are those of pkg/ray and pkg/tpu. */
#ifndef RAYTPU_RAYTPU_H
#define RAYTPU_RAYTPU_H

#include <getopt.h>
#include <stdio.h>

#include "ray/ray.h"

enum
{
  RAYTPU_OK = 0,
  RAYTPU_FAILED = 1, /* an object is invalid, or something could not be read or written */
  RAYTPU_USAGE = 2,
};

/* ---- output.c: standard output, and messages on standard error ---- */

enum output_format
{
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
};

struct settings
{
  const char *program;   /* "raytpu render" or "kubectl raytpu render" */
  const char *file;      /* "-": standard input */
  const char *namespace; /* of objects without one */
  enum output_format format;
  bool strict;
};

struct session
{
  const struct settings *settings;
  struct output out;
  size_t pods; /* seen so far (inject) */
  bool failed; /* an object was invalid */
};

/* A kind that a command takes: one row of its table. `take` prints to session->out and reports what is wrong. */
struct kind
{
  const char *api_version, *kind;
  void (*take) (struct session *session, const struct document *doc);
};

struct kinds
{
  const struct kind *rows;
  size_t count;
  bool skip_others; /* an object of another kind gets a note; else it is an error */
};

/* The whole run of a command that reads FILE: an exit code. */
int documents_run (const struct settings *settings, const struct kinds *kinds);

/* "<severity>: FILE: document N: KIND NAME: <message>"; document_error also makes the run fail. */
void document_report (const char *severity, const struct document *doc, const char *fmt, ...)
    __attribute__ ((format (printf, 3, 4)));
#define document_error(session, doc, ...) ((session)->failed = true, document_report ("error", (doc), __VA_ARGS__))

/* ---- commands: one file each ---- */

enum
{
  RAYTPU_OPTION_STRICT = 256, /* has no letter */
};

struct command
{
  const char *name, *summary;
  const char *help;          /* after the usage line */
  const char *short_options; /* begins with ":": main.c words getopt's complaints itself */
  const struct option *long_options;
  unsigned formats; /* bit per enum output_format */
  int (*run) (const struct settings *settings);
};

extern const struct command render_command, inject_command;

#endif
