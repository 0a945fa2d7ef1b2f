/* The CA and serving certificate: what verifiers demand of them, and when they are replaced. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "pki/pki.h"

#define HOUR (INT64_C (3600) * 1000)
#define DAY (24 * HOUR)
#define NOW (INT64_C (1780000000) * 1000)

static const char *const names[] = { "ray-tpu-operator-webhook.ray-tpu-system.svc", "localhost", "127.0.0.1", "::1" };
#define NNAMES (sizeof (names) / sizeof (names[0]))

static X509 *
load (const char *pem)
{
  BIO *bio = BIO_new_mem_buf (pem, -1);
  X509 *cert = PEM_read_bio_X509 (bio, NULL, NULL, NULL);

  BIO_free (bio);
  assert_non_null (cert);
  return cert;
}

/* Every certificate of a caBundle into a store, as a client does. */
static X509_STORE *
load_trust (const char *pem)
{
  X509_STORE *store = X509_STORE_new ();
  BIO *bio = BIO_new_mem_buf (pem, -1);
  X509 *cert;

  while ((cert = PEM_read_bio_X509 (bio, NULL, NULL, NULL)) != NULL)
    {
      assert_int_equal (X509_STORE_add_cert (store, cert), 1);
      X509_free (cert);
    }
  BIO_free (bio);
  return store;
}

/* What a TLS client with that caBundle makes of the certificate: X509_V_OK or OpenSSL's reason, in its strict RFC 5280
 * mode. */
static int
client_verdict (const char *trust_pem, const char *cert_pem, const char *host, int64_t now_ms)
{
  X509_STORE *store = load_trust (trust_pem);
  X509 *cert = load (cert_pem);
  X509_STORE_CTX *ctx = X509_STORE_CTX_new ();
  X509_VERIFY_PARAM *param;
  int verdict;

  assert_int_equal (X509_STORE_CTX_init (ctx, store, cert, NULL), 1);
  param = X509_STORE_CTX_get0_param (ctx);
  X509_VERIFY_PARAM_set_flags (param, X509_V_FLAG_X509_STRICT);
  X509_VERIFY_PARAM_set_purpose (param, X509_PURPOSE_SSL_SERVER);
  X509_VERIFY_PARAM_set_time (param, (time_t) (now_ms / 1000));
  assert_int_equal (X509_VERIFY_PARAM_set1_host (param, host, 0), 1);
  X509_verify_cert (ctx);
  verdict = X509_STORE_CTX_get_error (ctx);
  X509_STORE_CTX_free (ctx);
  X509_free (cert);
  X509_STORE_free (store);
  return verdict;
}

static void
a_client_that_trusts_the_ca_accepts_the_serving_certificate (void **state)
{
  cleanup_pair struct pki_pair ca = { 0 };
  cleanup_pair struct pki_pair serving = { 0 };
  struct error err = { "" };

  (void) state;
  assert_int_equal (pki_make_ca (&ca, "test-ca", NOW, 10 * DAY, &err), 0);
  assert_int_equal (pki_make_serving (&serving, &ca, names, NNAMES, NOW, DAY, &err), 0);
  assert_int_equal (pki_check_pair (&ca, &err), 0);
  assert_int_equal (pki_check_pair (&serving, &err), 0);
  assert_true (pki_signed_by (serving.cert_pem, ca.cert_pem));

  assert_int_equal (client_verdict (ca.cert_pem, serving.cert_pem, names[0], NOW), X509_V_OK);
  assert_int_equal (client_verdict (ca.cert_pem, serving.cert_pem, "other.svc", NOW), X509_V_ERR_HOSTNAME_MISMATCH);
  assert_int_equal (client_verdict (ca.cert_pem, serving.cert_pem, names[0], NOW + 2 * DAY),
                    X509_V_ERR_CERT_HAS_EXPIRED);
  /* an API server whose clock is four minutes behind */
  assert_int_equal (client_verdict (ca.cert_pem, serving.cert_pem, names[0], NOW - 4 * 60 * 1000), X509_V_OK);
}

static void
certificates_carry_the_extensions_verifiers_ask_for (void **state)
{
  cleanup_pair struct pki_pair ca = { 0 };
  cleanup_pair struct pki_pair serving = { 0 };
  struct error err = { "" };
  X509 *c, *s;
  int critical;

  (void) state;
  assert_int_equal (pki_make_ca (&ca, "test-ca", NOW, 10 * DAY, &err), 0);
  assert_int_equal (pki_make_serving (&serving, &ca, names, NNAMES, NOW, DAY, &err), 0);
  c = load (ca.cert_pem);
  s = load (serving.cert_pem);

  BASIC_CONSTRAINTS_free (X509_get_ext_d2i (c, NID_basic_constraints, &critical, NULL));
  assert_int_equal (critical, 1);
  assert_int_equal (X509_check_ca (c), 1);
  assert_int_equal (X509_check_ca (s), 0);
  assert_int_equal (X509_get_key_usage (c), KU_KEY_CERT_SIGN | KU_CRL_SIGN);
  assert_int_equal (X509_get_key_usage (s), KU_DIGITAL_SIGNATURE);
  assert_int_equal (X509_get_extended_key_usage (s), XKU_SSL_SERVER);
  assert_non_null (X509_get0_subject_key_id (c));
  assert_non_null (X509_get0_subject_key_id (s));
  assert_int_equal (ASN1_OCTET_STRING_cmp (X509_get0_authority_key_id (s), X509_get0_subject_key_id (c)), 0);
  assert_true (EVP_PKEY_is_a (X509_get0_pubkey (s), "EC"));
  assert_int_equal (EVP_PKEY_get_bits (X509_get0_pubkey (s)), 256);
  X509_free (c);
  X509_free (s);
}

static void
serials_are_random_and_infos_tell_the_dates (void **state)
{
  cleanup_pair struct pki_pair a = { 0 };
  cleanup_pair struct pki_pair b = { 0 };
  struct pki_info ia, ib;
  struct error err = { "" };

  (void) state;
  assert_int_equal (pki_make_ca (&a, "test-ca", NOW, DAY, &err), 0);
  assert_int_equal (pki_make_ca (&b, "test-ca", NOW, DAY, &err), 0);
  assert_int_equal (pki_info (&ia, a.cert_pem, &err), 0);
  assert_int_equal (pki_info (&ib, b.cert_pem, &err), 0);
  assert_string_equal (ia.subject, "CN=test-ca");
  assert_true (ia.not_before_ms == NOW - PKI_BACKDATE_MS);
  assert_true (ia.not_after_ms == NOW + DAY);
  assert_int_equal (strlen (ia.serial), 32);
  assert_string_not_equal (ia.serial, ib.serial);
  assert_false (pki_signed_by (a.cert_pem, b.cert_pem)); /* same name, other key */
}

static void
a_serving_certificate_covers_exactly_its_names (void **state)
{
  static const struct
  {
    const char *name;
    bool covered;
  } cases[] = {
    { "ray-tpu-operator-webhook.ray-tpu-system.svc", true },
    { "RAY-TPU-operator-webhook.ray-tpu-system.svc", true },
    { "ray-tpu-operator-webhook.ray-tpu-system", false },
    { "ray-tpu-operator-webhook", false }, /* the common name does not count */
    { "localhost", true },
    { "127.0.0.1", true },
    { "127.0.0.2", false },
    { "::1", true },
    { "0:0:0:0:0:0:0:1", true },
    { "", false },
  };
  cleanup_pair struct pki_pair ca = { 0 };
  cleanup_pair struct pki_pair serving = { 0 };
  struct error err = { "" };

  (void) state;
  assert_int_equal (pki_make_ca (&ca, "test-ca", NOW, DAY, &err), 0);
  assert_int_equal (pki_make_serving (&serving, &ca, names, NNAMES, NOW, DAY, &err), 0);
  for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++)
    if (pki_covers (serving.cert_pem, cases[i].name) != cases[i].covered)
      fail_msg ("\"%s\" should %sbe covered", cases[i].name, cases[i].covered ? "" : "not ");
}

static void
nonsense_is_refused_with_a_reason (void **state)
{
  static const char *const bad_names[] = { "a,DNS:evil", "UPPER_case", "", "*.example.com", "a b" };
  cleanup_pair struct pki_pair ca = { 0 };
  cleanup_pair struct pki_pair other = { 0 };
  cleanup_pair struct pki_pair out = { 0 };
  struct pki_pair crossed;
  struct pki_info info;
  struct error err = { "" };

  (void) state;
  assert_int_equal (pki_make_ca (&ca, "test-ca", NOW, DAY, &err), 0);
  assert_int_equal (pki_make_ca (&other, "test-ca", NOW, DAY, &err), 0);
  for (size_t i = 0; i < sizeof (bad_names) / sizeof (bad_names[0]); i++)
    {
      err.message[0] = '\0';
      assert_int_equal (pki_make_serving (&out, &ca, &bad_names[i], 1, NOW, DAY, &err), -EINVAL);
      assert_non_null (strstr (err.message, "neither a DNS name nor an IP address"));
    }
  assert_int_equal (pki_make_serving (&out, &ca, NULL, 0, NOW, DAY, &err), -EINVAL);
  assert_int_equal (pki_make_serving (&out, &ca, names, NNAMES, NOW + 2 * DAY, DAY, &err), -EINVAL);
  assert_int_equal (pki_make_ca (&out, "test-ca", NOW, 0, &err), -EINVAL);

  crossed = (struct pki_pair){ .cert_pem = ca.cert_pem, .key_pem = other.key_pem };
  assert_int_equal (pki_check_pair (&crossed, &err), -EINVAL);
  assert_string_equal (err.message, "the private key does not belong to the certificate");
  assert_int_equal (pki_make_serving (&out, &crossed, names, NNAMES, NOW, DAY, &err), -EINVAL);
  crossed.key_pem = NULL;
  assert_int_equal (pki_check_pair (&crossed, &err), -EINVAL);

  assert_int_equal (pki_info (&info, "no certificate", &err), -EINVAL);
  assert_int_equal (pki_info (&info, NULL, &err), -EINVAL);
  assert_false (pki_covers ("no certificate", "localhost"));
  assert_false (pki_signed_by (ca.cert_pem, NULL));
  assert_null (out.cert_pem);
}

static void
an_encrypted_key_is_refused_without_asking_for_its_passphrase (void **state)
{
  cleanup_pair struct pki_pair ca = { 0 };
  struct pki_pair sealed;
  struct error err = { "" };
  EVP_PKEY *key = EVP_EC_gen ("P-256");
  BIO *bio = BIO_new (BIO_s_mem ());
  char text[4096];
  int len;

  (void) state;
  assert_int_equal (pki_make_ca (&ca, "test-ca", NOW, DAY, &err), 0);
  assert_int_equal (
      PEM_write_bio_PrivateKey (bio, key, EVP_aes_128_cbc (), NULL, 0, NULL, (void *) (uintptr_t) "secret"), 1);
  len = BIO_read (bio, text, sizeof (text) - 1);
  assert_true (len > 0);
  text[len] = '\0';
  sealed = (struct pki_pair){ .cert_pem = ca.cert_pem, .key_pem = text };
  assert_int_equal (pki_check_pair (&sealed, &err), -EINVAL);
  assert_non_null (strstr (err.message, "without passphrase"));
  BIO_free (bio);
  EVP_PKEY_free (key);
}

/* ---- the bundle ---- */

struct step
{
  bool changed;
  int64_t next_ms;
};

static struct step
refresh (struct pki_bundle *b, int64_t now_ms)
{
  struct step step;
  struct error err = { "" };

  if (pki_bundle_refresh (b, names, NNAMES, &pki_default_policy, now_ms, &step.changed, &step.next_ms, &err) < 0)
    fail_msg ("%s", err.message);
  assert_true (step.next_ms > now_ms);
  return step;
}

static void
assert_served_and_trusted (const struct pki_bundle *b, int64_t now_ms)
{
  cleanup_free char *trust = pki_bundle_trust (b);

  assert_int_equal (client_verdict (trust, b->serving.cert_pem, names[0], now_ms), X509_V_OK);
}

static void
an_empty_bundle_is_filled_once (void **state)
{
  cleanup_bundle struct pki_bundle b = { 0 };
  cleanup_free char *before = pki_bundle_trust (&b);
  struct step first, second;

  (void) state;
  assert_string_equal (before, "");
  first = refresh (&b, NOW);
  assert_true (first.changed);
  assert_null (b.old_ca_pem);
  assert_served_and_trusted (&b, NOW);
  second = refresh (&b, NOW + HOUR);
  assert_false (second.changed);
  assert_true (first.next_ms == second.next_ms);
  assert_true (first.next_ms == NOW + 275 * DAY); /* 365 days less 90 */
}

static void
a_due_serving_certificate_is_renewed_under_the_same_ca (void **state)
{
  cleanup_bundle struct pki_bundle b = { 0 };
  cleanup_free char *ca = NULL;
  int64_t due;

  (void) state;
  due = refresh (&b, NOW).next_ms;
  ca = xstrdup (b.ca.cert_pem);
  assert_false (refresh (&b, due - 1000).changed);
  assert_true (refresh (&b, due).changed);
  assert_string_equal (b.ca.cert_pem, ca);
  assert_null (b.old_ca_pem);
  assert_served_and_trusted (&b, due);
}

static void
a_new_ca_is_trusted_before_it_signs (void **state)
{
  cleanup_bundle struct pki_bundle b = { 0 };
  cleanup_free char *old_ca = NULL;
  cleanup_free char *old_trust = NULL;
  cleanup_free char *new_trust = NULL;
  const int64_t due = NOW + (3650 - 365) * DAY;
  struct step step;

  (void) state;
  refresh (&b, NOW);
  old_ca = xstrdup (b.ca.cert_pem);
  old_trust = pki_bundle_trust (&b);

  step = refresh (&b, due); /* the operator was off for years; the serving certificate has long expired */
  assert_true (step.changed);
  assert_string_equal (b.old_ca_pem, old_ca);
  assert_true (pki_signed_by (b.serving.cert_pem, old_ca));
  assert_true (step.next_ms == due + DAY);
  new_trust = pki_bundle_trust (&b);
  assert_int_equal (client_verdict (old_trust, b.serving.cert_pem, names[0], due), X509_V_OK); /* not yet told */
  assert_int_equal (client_verdict (new_trust, b.serving.cert_pem, names[0], due), X509_V_OK); /* told */
  assert_false (refresh (&b, due + DAY - 1000).changed);

  step = refresh (&b, due + DAY);
  assert_true (step.changed);
  assert_true (pki_signed_by (b.serving.cert_pem, b.ca.cert_pem));
  assert_string_equal (b.old_ca_pem, old_ca); /* another replica may serve the former certificate for a moment yet */
  assert_served_and_trusted (&b, due + DAY);
}

static void
a_serving_certificate_is_made_to_last_the_overlap (void **state)
{
  cleanup_bundle struct pki_bundle b = { 0 };
  const int64_t ca_due = NOW + (3650 - 365) * DAY;
  struct pki_info info;
  struct error err = { "" };

  (void) state;
  refresh (&b, NOW);
  /* renewed so that its own renewal would fall into the middle of the overlap */
  refresh (&b, ca_due - 275 * DAY + HOUR);
  refresh (&b, ca_due);
  assert_int_equal (pki_info (&info, b.serving.cert_pem, &err), 0);
  assert_true (info.not_before_ms == ca_due - PKI_BACKDATE_MS);
  assert_true (pki_signed_by (b.serving.cert_pem, b.old_ca_pem));
  assert_false (refresh (&b, ca_due + DAY - 1000).changed);
}

static void
the_old_ca_goes_when_it_expires (void **state)
{
  cleanup_bundle struct pki_bundle b = { 0 };
  const int64_t due = NOW + (3650 - 365) * DAY;

  (void) state;
  refresh (&b, NOW);
  refresh (&b, due);
  refresh (&b, due + DAY);
  refresh (&b, due + 200 * DAY);
  assert_non_null (b.old_ca_pem);
  assert_true (refresh (&b, NOW + 3650 * DAY).changed);
  assert_null (b.old_ca_pem);
}

static void
decades_pass_without_a_moment_of_distrust (void **state)
{
  cleanup_bundle struct pki_bundle b = { 0 };
  cleanup_free char *trust_a_day_ago = NULL;
  int64_t now = NOW;
  int cas = 1, rounds = 0;

  (void) state;
  now = refresh (&b, now).next_ms;
  trust_a_day_ago = pki_bundle_trust (&b);
  while (now < NOW + 30 * 365 * DAY && rounds++ < 1000)
    {
      cleanup_free char *ca = xstrdup (b.ca.cert_pem);
      struct step step = refresh (&b, now);

      assert_true (step.changed); /* next_ms never asks for a call in vain */
      assert_served_and_trusted (&b, now);
      /* an API server that still has the caBundle of the step before accepts the certificate too */
      assert_int_equal (client_verdict (trust_a_day_ago, b.serving.cert_pem, names[0], now), X509_V_OK);
      cas += !text_eq (ca, b.ca.cert_pem);
      free (trust_a_day_ago);
      trust_a_day_ago = pki_bundle_trust (&b);
      now = step.next_ms;
    }
  assert_int_equal (cas, 4); /* every nine years */
  assert_in_range (rounds, 40, 100);
}

static void
use_key_of_another_ca (struct pki_bundle *b)
{
  struct pki_pair other = { 0 };
  struct error err;

  assert_int_equal (pki_make_ca (&other, "other", NOW, DAY, &err), 0);
  free (b->ca.key_pem);
  b->ca.key_pem = take_ptr (other.key_pem);
  pki_pair_free (&other);
}

static void
lose_ca_key (struct pki_bundle *b)
{
  free (take_ptr (b->ca.key_pem));
}

static void
lose_serving_key (struct pki_bundle *b)
{
  free (take_ptr (b->serving.key_pem));
}

static void
garble_serving (struct pki_bundle *b)
{
  free (b->serving.cert_pem);
  b->serving.cert_pem = xstrdup ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
}

static void
garble_ca (struct pki_bundle *b)
{
  free (b->ca.cert_pem);
  b->ca.cert_pem = xstrdup ("garbage");
}

static void
garble_old_ca (struct pki_bundle *b)
{
  free (b->old_ca_pem);
  b->old_ca_pem = xstrdup ("garbage");
}

static void
serve_a_strangers_certificate (struct pki_bundle *b)
{
  cleanup_pair struct pki_pair ca = { 0 };
  struct error err;

  assert_int_equal (pki_make_ca (&ca, "stranger", NOW, 10 * DAY, &err), 0);
  pki_pair_free (&b->serving);
  assert_int_equal (pki_make_serving (&b->serving, &ca, names, NNAMES, NOW, DAY, &err), 0);
}

static void
a_damaged_bundle_is_mended_with_as_little_as_possible (void **state)
{
  static const struct
  {
    const char *name;
    void (*damage) (struct pki_bundle *b);
    bool new_ca, new_serving, old_ca;
  } cases[] = {
    { "the CA key is another's: trust goes on, the certificate stays", use_key_of_another_ca, true, false, true },
    { "the CA key is gone", lose_ca_key, true, false, true },
    { "the CA is garbage: nothing can vouch for the certificate", garble_ca, true, true, false },
    { "the serving key is gone", lose_serving_key, false, true, false },
    { "the serving certificate is garbage", garble_serving, false, true, false },
    { "the old CA is garbage", garble_old_ca, false, false, false },
    { "the serving certificate is a stranger's", serve_a_strangers_certificate, false, true, false },
  };

  (void) state;
  for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++)
    {
      cleanup_bundle struct pki_bundle b = { 0 };
      cleanup_free char *ca = NULL;
      cleanup_free char *serving = NULL;

      refresh (&b, NOW);
      ca = xstrdup (b.ca.cert_pem);
      serving = xstrdup (b.serving.cert_pem);
      cases[i].damage (&b);
      if (!refresh (&b, NOW + HOUR).changed)
        fail_msg ("%s: nothing changed", cases[i].name);
      if (text_eq (b.ca.cert_pem, ca) == cases[i].new_ca)
        fail_msg ("%s: the CA should %sbe new", cases[i].name, cases[i].new_ca ? "" : "not ");
      if (text_eq (b.serving.cert_pem, serving) == cases[i].new_serving)
        fail_msg ("%s: the serving certificate should %sbe new", cases[i].name, cases[i].new_serving ? "" : "not ");
      if ((b.old_ca_pem != NULL) != cases[i].old_ca)
        fail_msg ("%s: there should be %s old CA", cases[i].name, cases[i].old_ca ? "an" : "no");
      assert_served_and_trusted (&b, NOW + HOUR);
      assert_false (refresh (&b, NOW + 2 * HOUR).changed);
    }
}

static void
a_second_broken_ca_does_not_orphan_the_certificate_in_use (void **state)
{
  cleanup_bundle struct pki_bundle b = { 0 };
  cleanup_free char *serving = NULL;

  (void) state;
  refresh (&b, NOW);
  serving = xstrdup (b.serving.cert_pem);
  lose_ca_key (&b);
  refresh (&b, NOW + HOUR);
  lose_ca_key (&b); /* within the overlap: the certificate in use is still the first CA's */
  refresh (&b, NOW + 2 * HOUR);
  assert_string_equal (b.serving.cert_pem, serving);
  assert_served_and_trusted (&b, NOW + 2 * HOUR);
}

static void
other_names_mean_another_certificate (void **state)
{
  static const char *const more[] = { "ray-tpu-operator-webhook.elsewhere.svc" };
  cleanup_bundle struct pki_bundle b = { 0 };
  struct error err = { "" };
  bool changed;
  int64_t next;

  (void) state;
  refresh (&b, NOW);
  assert_int_equal (pki_bundle_refresh (&b, more, 1, &pki_default_policy, NOW, &changed, &next, &err), 0);
  assert_true (changed);
  assert_true (pki_covers (b.serving.cert_pem, more[0]));
  assert_false (pki_covers (b.serving.cert_pem, names[0]));
}

static void
a_certificate_from_a_clock_far_ahead_is_replaced (void **state)
{
  cleanup_bundle struct pki_bundle b = { 0 };

  (void) state;
  refresh (&b, NOW + HOUR);
  assert_true (refresh (&b, NOW).changed);
  assert_served_and_trusted (&b, NOW);
  assert_false (refresh (&b, NOW + HOUR).changed); /* and the fast clock is content with it */
  assert_served_and_trusted (&b, NOW + HOUR);
}

static void
a_policy_that_would_never_rest_is_refused (void **state)
{
  static const struct pki_policy policies[] = {
    { 10 * DAY, DAY, 5 * DAY, DAY, HOUR },        /* serving due at once */
    { 10 * DAY, DAY, 10 * DAY, HOUR, HOUR },      /* CA due at once */
    { 10 * DAY, 5 * DAY, 2 * DAY, 2 * DAY, DAY }, /* due together with its CA's end */
    { 10 * DAY, 5 * DAY, 3 * DAY, -1, DAY },      { 0, 0, 0, 0, 0 },
  };
  cleanup_bundle struct pki_bundle b = { 0 };
  struct error err;
  bool changed;
  int64_t next;

  (void) state;
  for (size_t i = 0; i < sizeof (policies) / sizeof (policies[0]); i++)
    {
      err.message[0] = '\0';
      assert_int_equal (pki_bundle_refresh (&b, names, NNAMES, &policies[i], NOW, &changed, &next, &err), -EINVAL);
      assert_string_not_equal (err.message, "");
      assert_false (changed);
    }
  assert_int_equal (pki_bundle_refresh (&b, NULL, 0, &pki_default_policy, NOW, &changed, &next, &err), -EINVAL);
  assert_null (b.ca.cert_pem);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (a_client_that_trusts_the_ca_accepts_the_serving_certificate),
    cmocka_unit_test (certificates_carry_the_extensions_verifiers_ask_for),
    cmocka_unit_test (serials_are_random_and_infos_tell_the_dates),
    cmocka_unit_test (a_serving_certificate_covers_exactly_its_names),
    cmocka_unit_test (nonsense_is_refused_with_a_reason),
    cmocka_unit_test (an_encrypted_key_is_refused_without_asking_for_its_passphrase),
    cmocka_unit_test (an_empty_bundle_is_filled_once),
    cmocka_unit_test (a_due_serving_certificate_is_renewed_under_the_same_ca),
    cmocka_unit_test (a_new_ca_is_trusted_before_it_signs),
    cmocka_unit_test (a_serving_certificate_is_made_to_last_the_overlap),
    cmocka_unit_test (the_old_ca_goes_when_it_expires),
    cmocka_unit_test (decades_pass_without_a_moment_of_distrust),
    cmocka_unit_test (a_damaged_bundle_is_mended_with_as_little_as_possible),
    cmocka_unit_test (a_second_broken_ca_does_not_orphan_the_certificate_in_use),
    cmocka_unit_test (other_names_mean_another_certificate),
    cmocka_unit_test (a_certificate_from_a_clock_far_ahead_is_replaced),
    cmocka_unit_test (a_policy_that_would_never_rest_is_refused),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
