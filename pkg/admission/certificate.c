/* certificate.c - the serving certificate: loaded, checked, shared by connections, replaced without dropping any. */
#include "admission/server_internal.h"

#include <errno.h>
#include <string.h>

#define CHAIN_MAX 8

struct certificate
{
  atomic_uint references;
  gnutls_pcert_st chain[CHAIN_MAX]; /* leaf first */
  unsigned int length;
  gnutls_privkey_t key;
};

static gnutls_datum_t
datum (const char *text)
{
  return (gnutls_datum_t){ .data = (unsigned char *) (uintptr_t) text, .size = (unsigned int) strlen (text) };
}

struct certificate *
certificate_ref (struct certificate *certificate)
{
  atomic_fetch_add_explicit (&certificate->references, 1, memory_order_relaxed);
  return certificate;
}

void
certificate_unref (struct certificate *certificate)
{
  if (certificate == NULL || atomic_fetch_sub_explicit (&certificate->references, 1, memory_order_acq_rel) > 1)
    return;
  for (unsigned int i = 0; i < certificate->length; i++)
    gnutls_pcert_deinit (&certificate->chain[i]);
  gnutls_privkey_deinit (certificate->key);
  free (certificate);
}

static int
load_chain (struct certificate *c, const char *cert_pem, struct error *err)
{
  gnutls_datum_t data = datum (cert_pem);
  unsigned int length = CHAIN_MAX;
  int ret = gnutls_pcert_list_import_x509_raw (c->chain, &length, &data, GNUTLS_X509_FMT_PEM, 0);

  if (ret < 0)
    return error_set (err, EINVAL, "cannot read the serving certificate (PEM, leaf first, at most %d): %s", CHAIN_MAX,
                      gnutls_strerror (ret));
  c->length = length;
  return 0;
}

static int
load_key (struct certificate *c, const char *key_pem, struct error *err)
{
  gnutls_datum_t data = datum (key_pem);
  int ret = gnutls_privkey_init (&c->key);

  if (ret == 0)
    ret = gnutls_privkey_import_x509_raw (c->key, &data, GNUTLS_X509_FMT_PEM, NULL, 0);
  return ret == 0
             ? 0
             : error_set (err, EINVAL, "cannot read the serving certificate's private key (PEM, no passphrase): %s",
                          gnutls_strerror (ret));
}

static bool
same_key (gnutls_pubkey_t a, gnutls_pubkey_t b)
{
  unsigned char ids[2][64];
  size_t sizes[2] = { sizeof (ids[0]), sizeof (ids[1]) };

  return gnutls_pubkey_get_key_id (a, GNUTLS_KEYID_USE_SHA256, ids[0], &sizes[0]) == 0
         && gnutls_pubkey_get_key_id (b, GNUTLS_KEYID_USE_SHA256, ids[1], &sizes[1]) == 0 && sizes[0] == sizes[1]
         && memcmp (ids[0], ids[1], sizes[0]) == 0;
}

static int
check_key (struct certificate *c, struct error *err)
{
  gnutls_pubkey_t public;
  bool same = false;

  if (gnutls_pubkey_init (&public) == 0)
    {
      same = gnutls_pubkey_import_privkey (public, c->key, 0, 0) == 0 && same_key (public, c->chain[0].pubkey);
      gnutls_pubkey_deinit (public);
    }
  return same ? 0 : error_set (err, EINVAL, "the private key does not belong to the serving certificate");
}

int
certificate_load (struct certificate **out, const char *cert_pem, const char *key_pem, struct error *err)
{
  struct certificate *c;
  int ret;

  if (cert_pem == NULL || key_pem == NULL)
    return error_set (err, EINVAL, "the serving certificate has no %s",
                      cert_pem == NULL ? "certificate" : "private key");
  c = xcalloc (1, sizeof (*c));
  atomic_init (&c->references, 1);
  ret = load_chain (c, cert_pem, err);
  if (ret == 0)
    ret = load_key (c, key_pem, err);
  if (ret == 0)
    ret = check_key (c, err);
  if (ret < 0)
    {
      certificate_unref (c);
      return ret;
    }
  *out = c;
  return 0;
}

/* The session's "db" pointer is free: sessions are not cached here, and the plain session pointer is libmicrohttpd's
 * own. */
void
certificate_bind (gnutls_session_t session, struct certificate *certificate)
{
  gnutls_db_set_ptr (session, certificate);
}

int
certificate_retrieve (gnutls_session_t session, const gnutls_datum_t *req_ca_dn, int nreqs,
                      const gnutls_pk_algorithm_t *pk_algos, int pk_algos_length, gnutls_pcert_st **pcert,
                      unsigned int *pcert_length, gnutls_privkey_t *privkey)
{
  struct certificate *c = gnutls_db_get_ptr (session);

  (void) req_ca_dn, (void) nreqs, (void) pk_algos, (void) pk_algos_length;
  if (c == NULL)
    return -1;
  *pcert = c->chain;
  *pcert_length = c->length;
  *privkey = c->key;
  return 0;
}
