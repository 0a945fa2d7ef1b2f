/* raytpu - shows, without a cluster, what ray-tpu-operator does with a manifest. Also a kubectl plugin: installed (or
 * linked) as kubectl-raytpu it is `kubectl raytpu`. */
#include "raytpu.h"

#include <signal.h>
#include <stdarg.h>
#include <string.h>

#define OPTION_STRICT 256 /* has no letter */

static const struct command *const commands[]
    = { &render_command, &inject_command, &validate_command, &topology_command };

/* ---- wrong usage ---- */

static int wrong_usage (const char *program, const char *fmt, ...) __attribute__ ((format (printf, 2, 3)));

static int
wrong_usage (const char *program, const char *fmt, ...)
{
  cleanup_free char *message = NULL;
  va_list args;

  va_start (args, fmt);
  message = xvasprintf (fmt, args);
  va_end (args);
  report_clean (message);
  fprintf (stderr, "%s: %s\nSee '%s --help'.\n", program, message, program);
  return RAYTPU_USAGE;
}

/* ---- options of a command ---- */

/* All that there are; every command has those that need nothing. */
static const struct
{
  unsigned need;
  struct option option;
} all_options[] = {
  { RAYTPU_TAKES_FILE, { "filename", required_argument, NULL, 'f' } },
  { RAYTPU_TAKES_NAMESPACE, { "namespace", required_argument, NULL, 'n' } },
  { RAYTPU_TAKES_STRICT, { "strict", no_argument, NULL, OPTION_STRICT } },
  { 0, { "output", required_argument, NULL, 'o' } },
  { 0, { "help", no_argument, NULL, 'h' } },
};

/* As getopt_long wants them. The first character makes it leave the complaints to us. */
struct known_options
{
  struct option list[ARRAY_LEN (all_options) + 1];
  char letters[2 * ARRAY_LEN (all_options) + 2];
};

static void
know_options (struct known_options *known, const struct command *command)
{
  char *letter = known->letters;
  size_t count = 0;

  *known = (struct known_options){ 0 };
  *letter++ = ':';
  for (size_t i = 0; i < ARRAY_LEN (all_options); i++)
    {
      const struct option *o = &all_options[i].option;

      if ((all_options[i].need & ~command->takes) != 0)
        continue;
      known->list[count++] = *o;
      if (o->val == OPTION_STRICT)
        continue;
      *letter++ = (char) o->val;
      if (o->has_arg == required_argument)
        *letter++ = ':';
    }
}

static char *
list_formats (unsigned formats)
{
  struct buf list = { 0 };

  for (size_t i = 0; i < OUTPUT_FORMAT_MAX; i++)
    if (formats & 1U << i)
      buf_printf (&list, "%s%s", list.len > 0 ? ", " : "", output_format_names[i]);
  return buf_take (&list);
}

static int
set_format (struct settings *settings, const struct command *command, const char *name)
{
  cleanup_free char *formats = list_formats (command->formats);
  int i = text_index (name, output_format_names, OUTPUT_FORMAT_MAX);

  if (i < 0 || !(command->formats & 1U << i))
    return wrong_usage (settings->program, "-o %s is no output format: use one of %s", name, formats);
  settings->format = (enum output_format) i;
  return 0;
}

static int
set_file (struct settings *settings, const char *file)
{
  if (settings->file != NULL)
    return wrong_usage (settings->program, "-f is given twice: put the objects into one file, or use - and cat");
  if (*file == '\0')
    return wrong_usage (settings->program, "-f needs the name of a file, or - for standard input");
  settings->file = file;
  return 0;
}

static int
set_namespace (struct settings *settings, const char *namespace)
{
  if (!text_is_dns1123_label (namespace))
    return wrong_usage (settings->program, "-n %s is no namespace: use at most 63 lower-case letters, digits and \"-\"",
                        namespace);
  settings->namespace = namespace;
  return 0;
}

/* 0 to go on, else an exit code. */
static int
take_option (struct settings *settings, const struct command *command, int option, const char *argument)
{
  switch (option)
    {
    case 'f':
      return set_file (settings, argument);
    case 'n':
      return set_namespace (settings, argument);
    case 'o':
      return set_format (settings, command, argument);
    default:
      settings->strict = true;
      return 0;
    }
}

static int
print_command_help (const struct settings *settings, const struct command *command)
{
  cleanup_free char *text = xasprintf ("Usage: %s %s", settings->program, command->help);

  return output_text (text);
}

/* Why getopt does not like a word: a missing value, one too many, or an option that the command does not have. */
static int
wrong_option (const struct settings *settings, const struct option *known, int option, char **argv)
{
  while (known->name != NULL && known->val != optopt)
    known++;
  if (option == ':')
    return wrong_usage (settings->program, "%s needs a value", argv[optind - 1]);
  if (known->name != NULL)
    return wrong_usage (settings->program, "--%s takes no value", known->name);
  if (optopt != 0)
    return wrong_usage (settings->program, "there is no option -%c", optopt);
  return wrong_usage (settings->program, "there is no option %s", argv[optind - 1]);
}

static int
check_file (const struct settings *settings, int argc, char **argv)
{
  if (argc > 0)
    return wrong_usage (settings->program, "unexpected argument %s: name the file with -f", argv[0]);
  if (settings->file == NULL)
    return wrong_usage (settings->program, "-f FILE is missing: name the file to read, or - for standard input");
  return 0;
}

static int
take_arguments (struct settings *settings, int argc, char **argv)
{
  if (argc > (int) ARRAY_LEN (settings->arguments))
    return wrong_usage (settings->program, "unexpected argument %s", argv[ARRAY_LEN (settings->arguments)]);
  for (int i = 0; i < argc; i++)
    settings->arguments[i] = argv[i];
  return 0;
}

static int
run_command (const struct command *command, const char *program, int argc, char **argv)
{
  cleanup_free char *name = xasprintf ("%s %s", program, command->name);
  struct settings settings
      = { .program = name, .namespace = "default", .format = (enum output_format) __builtin_ctz (command->formats) };
  struct known_options known;
  int option, ret;

  opterr = 0;
  know_options (&known, command);
  while ((option = getopt_long (argc, argv, known.letters, known.list, NULL)) != -1)
    {
      if (option == 'h')
        return print_command_help (&settings, command);
      if (option == '?' || option == ':')
        return wrong_option (&settings, known.list, option, argv);
      ret = take_option (&settings, command, option, optarg);
      if (ret != 0)
        return ret;
    }
  ret = command->takes & RAYTPU_TAKES_FILE ? check_file (&settings, argc - optind, argv + optind)
                                           : take_arguments (&settings, argc - optind, argv + optind);
  return ret != 0 ? ret : command->run (&settings);
}

/* ---- the program ---- */

static char *
usage_text (const char *program)
{
  struct buf text = { 0 };

  buf_printf (&text,
              "Usage: %s COMMAND [OPTION...]\n"
              "\n"
              "Shows, without a cluster, what ray-tpu-operator does with a manifest, and what TPU slices are.\n"
              "\n",
              program);
  for (size_t i = 0; i < ARRAY_LEN (commands); i++)
    buf_printf (&text, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
  buf_printf (&text, "\n"
                     "  -h, --help     print this; after a command: its options\n"
                     "      --version  print the version\n"
                     "\n"
                     "Exit code: 0; 1 when an object is invalid or a file cannot be read; 2 for wrong usage.\n");
  return buf_take (&text);
}

static const char *
program_name (const char *argv0)
{
  const char *slash = argv0 ? strrchr (argv0, '/') : NULL;

  return text_eq (slash ? slash + 1 : argv0, "kubectl-raytpu") ? "kubectl raytpu" : "raytpu";
}

static int
top_level (const char *program, const char *word)
{
  cleanup_free char *usage = usage_text (program);

  if (word == NULL)
    {
      fputs (usage, stderr);
      return RAYTPU_USAGE;
    }
  if (text_eq (word, "--help") || text_eq (word, "-h"))
    return output_text (usage);
  if (text_eq (word, "--version"))
    return output_text ("raytpu " VERSION "\n");
  return wrong_usage (program, "there is no %s %s", *word == '-' ? "option" : "command", word);
}

int
main (int argc, char **argv)
{
  const char *program = program_name (argv[0]);

  signal (SIGPIPE, SIG_IGN); /* a closed pipe is a write error like a full disk */
  for (size_t i = 0; argc > 1 && i < ARRAY_LEN (commands); i++)
    if (text_eq (argv[1], commands[i]->name))
      return run_command (commands[i], program, argc - 1, argv + 1);
  return top_level (program, argc > 1 ? argv[1] : NULL);
}
