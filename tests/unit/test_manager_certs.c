/* The serving certificate without an API server, and the look at our own listener: over a real TLS server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>

#include "manager/manager_internal.h"

#define WAIT_MS 10000

static const struct admission_route route = { "/x", "x", NULL, NULL };

static void
parse_options (struct manager_options *o, const char *const *args)
{
  char *argv[6] = { (char *) (uintptr_t) "ray-tpu-operator", (char *) (uintptr_t) "--kubeconfig=none" };
  cleanup_buf struct buf text = { 0 };
  struct error err = { 0 };
  int argc = 2;

  for (; args[argc - 2] != NULL; argc++)
    argv[argc] = (char *) (uintptr_t) args[argc - 2];
  if (manager_options_parse (o, argc, argv, &text, &err) != 0)
    fail_msg ("%s", err.message);
}

struct running
{
  struct manager_options options;
  struct certs *certs;
  struct admission_server *server;
};

static void
start (struct running *r, const char *const *args)
{
  const struct admission_server_options server
      = { .bind_address = "127.0.0.1:0", .routes = &route, .nroutes = 1, .threads = 1 };
  struct error err = { 0 };

  parse_options (&r->options, args);
  if (certs_new (&r->certs, &r->options, "ns", &err) < 0
      || admission_server_start (&r->server, &server, certs_first (r->certs)->cert_pem, certs_first (r->certs)->key_pem,
                                 &err)
             < 0)
    fail_msg ("%s", err.message);
  certs_start (r->certs, r->server, NULL);
}

static void
stop (struct running *r)
{
  certs_stop (r->certs);
  admission_server_stop (r->server);
  certs_free (r->certs);
  manager_options_free (&r->options);
}

/* The trust text comes with the first turn of the thread. */
static void
wait_for_trust (struct running *r, char **name, char **trust)
{
  int64_t until = clock_mono_ms () + WAIT_MS;

  for (;;)
    {
      certs_probe (r->certs, name, trust);
      if (*trust != NULL)
        return;
      free (*name);
      if (clock_mono_ms () > until)
        fail_msg ("no trust text after %d ms", WAIT_MS);
      clock_sleep_ms (5);
    }
}

static void
test_own_certificate_is_served_and_verified (void **state)
{
  struct running r;
  cleanup_free char *name = NULL, *trust = NULL;
  cleanup_pair struct pki_pair other = { 0 };
  struct error err = { 0 };
  int port;

  (void) state;
  start (&r, (const char *const[]){ "--webhook-service-name=svc", NULL });
  wait_for_trust (&r, &name, &trust);
  port = admission_server_port (r.server);
  assert_string_equal (name, "svc.ns.svc");
  assert_true (certs_ready (r.certs, &err));
  assert_true (certs_expiry_ms (r.certs) > clock_wall_ms ());
  if (probe_listener ("127.0.0.1", port, name, trust, &err) < 0)
    fail_msg ("%s", err.message);
  assert_int_equal (probe_listener ("127.0.0.1", port, "127.0.0.1", trust, &err), 0);

  assert_int_equal (probe_listener ("127.0.0.1", port, "svc.elsewhere.svc", trust, &err), -EIO);
  assert_int_equal (pki_make_ca (&other, "other", clock_wall_ms (), 3600000, &err), 0);
  assert_int_equal (probe_listener ("127.0.0.1", port, name, other.cert_pem, &err), -EIO);
  assert_non_null (strstr (err.message, "svc.ns.svc"));
  assert_int_equal (probe_listener ("127.0.0.1", port, name, NULL, &err), 0);
  stop (&r);
  assert_int_equal (probe_listener ("127.0.0.1", port, name, trust, &err), -EIO);
}

static char *
write_file (const char *directory, const char *name, const char *text)
{
  char *path = xasprintf ("%s/%s", directory, name);
  FILE *f = fopen (path, "w");

  assert_non_null (f);
  assert_true (fputs (text, f) >= 0);
  assert_int_equal (fclose (f), 0);
  return path;
}

static void
test_certificate_from_files (void **state)
{
  static const char *const names[] = { "from.files" };
  char directory[] = "/tmp/test_manager_certs.XXXXXX";
  cleanup_pair struct pki_pair ca = { 0 }, serving = { 0 }, foreign = { 0 };
  cleanup_options struct manager_options refused;
  cleanup_free char *cert = NULL, *key = NULL, *wrong_key = NULL, *cert_flag = NULL, *key_flag = NULL,
                    *wrong_flag = NULL;
  cleanup_free char *name = NULL, *trust = NULL;
  struct certs *certs = NULL;
  struct error err = { 0 };
  struct running r;
  int64_t now = clock_wall_ms ();

  (void) state;
  assert_non_null (mkdtemp (directory));
  assert_int_equal (pki_make_ca (&ca, "ca", now, 7200000, &err), 0);
  assert_int_equal (pki_make_serving (&serving, &ca, names, 1, now, 3600000, &err), 0);
  assert_int_equal (pki_make_serving (&foreign, &ca, names, 1, now, 3600000, &err), 0);
  cert = write_file (directory, "tls.crt", serving.cert_pem);
  key = write_file (directory, "tls.key", serving.key_pem);
  wrong_key = write_file (directory, "wrong.key", foreign.key_pem);
  cert_flag = xasprintf ("--webhook-cert-file=%s", cert);
  key_flag = xasprintf ("--webhook-key-file=%s", key);
  wrong_flag = xasprintf ("--webhook-key-file=%s", wrong_key);

  start (&r, (const char *const[]){ cert_flag, key_flag, NULL });
  assert_int_equal (probe_listener ("127.0.0.1", admission_server_port (r.server), "from.files", ca.cert_pem, &err), 0);
  assert_true (certs_ready (r.certs, &err));
  certs_probe (r.certs, &name, &trust);
  assert_null (trust); /* who signed it is not ours to know */
  stop (&r);

  parse_options (&refused, (const char *const[]){ cert_flag, wrong_flag, NULL });
  assert_true (certs_new (&certs, &refused, "ns", &err) < 0);
  assert_non_null (strstr (err.message, cert));
  assert_non_null (strstr (err.message, wrong_key));
  assert_int_equal (remove (cert), 0);
  assert_true (certs_new (&certs, &refused, "ns", &err) < 0);
  assert_non_null (strstr (err.message, cert));
  remove (key);
  remove (wrong_key);
  assert_int_equal (rmdir (directory), 0);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_own_certificate_is_served_and_verified),
    cmocka_unit_test (test_certificate_from_files),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
