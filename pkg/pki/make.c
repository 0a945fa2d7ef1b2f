/* make.c - making certificates that Go's crypto/x509 (the API server) and OpenSSL in its strict mode both accept:
 * version 3, random serial, critical basic constraints and key usage, key identifiers, names in subjectAltName. */
#include "pki/pki_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#define SERVING_COMMON_NAME                                                                                            \
  "ray-tpu-operator-webhook" /* for people only: a host name may exceed a common name's 64 characters */

static inline void
cleanup_namesp (GENERAL_NAMES **names)
{
  GENERAL_NAMES_free (*names);
}
#define cleanup_names __attribute__ ((cleanup (cleanup_namesp)))

struct extension
{
  int nid;
  const char *value; /* OpenSSL's configuration syntax; constants only, so nothing of the user's is ever parsed */
};

static const struct extension ca_extensions[] = {
  { NID_basic_constraints, "critical,CA:TRUE,pathlen:0" },
  { NID_key_usage, "critical,keyCertSign,cRLSign" },
  { NID_subject_key_identifier, "hash" },
  { NID_authority_key_identifier, "keyid:always" },
};
static const struct extension serving_extensions[] = {
  { NID_basic_constraints, "critical,CA:FALSE" },
  { NID_key_usage, "critical,digitalSignature" }, /* an ECDSA key signs; it enciphers nothing */
  { NID_ext_key_usage, "serverAuth" },
  { NID_subject_key_identifier, "hash" },
  { NID_authority_key_identifier, "keyid:always" },
};

void
pki_pair_free (struct pki_pair *pair)
{
  if (pair->key_pem != NULL)
    OPENSSL_cleanse (pair->key_pem, strlen (pair->key_pem));
  free (take_ptr (pair->key_pem));
  free (take_ptr (pair->cert_pem));
}

/* 126 random bits, positive, always of 16 bytes: unique without any memory of what was issued (RFC 5280 §4.1.2.2). */
static bool
set_serial (X509 *cert)
{
  unsigned char bytes[16];
  BIGNUM *number;
  bool ok;

  if (RAND_bytes (bytes, sizeof (bytes)) != 1)
    return false;
  bytes[0] = (unsigned char) ((bytes[0] & 0x7f) | 0x40);
  number = BN_bin2bn (bytes, sizeof (bytes), NULL);
  ok = number != NULL && BN_to_ASN1_INTEGER (number, X509_get_serialNumber (cert)) != NULL;
  BN_free (number);
  return ok;
}

static bool
set_subject (X509 *cert, const char *common_name)
{
  return X509_NAME_add_entry_by_txt (X509_get_subject_name (cert), "CN", MBSTRING_UTF8,
                                     (const unsigned char *) common_name, -1, -1, 0)
         == 1;
}

static bool
set_dates (X509 *cert, int64_t now_ms, int64_t not_after_ms)
{
  return ASN1_TIME_set (X509_getm_notBefore (cert), (time_t) ((now_ms - PKI_BACKDATE_MS) / 1000)) != NULL
         && ASN1_TIME_set (X509_getm_notAfter (cert), (time_t) (not_after_ms / 1000)) != NULL;
}

static bool
add_extensions (X509 *cert, X509 *issuer, const struct extension *list, size_t count)
{
  X509V3_CTX ctx;

  X509V3_set_ctx_nodb (&ctx);
  X509V3_set_ctx (&ctx, issuer, cert, NULL, NULL, 0);
  for (size_t i = 0; i < count; i++)
    {
      X509_EXTENSION *ext = X509V3_EXT_conf_nid (NULL, &ctx, list[i].nid, list[i].value);
      bool ok = ext != NULL && X509_add_ext (cert, ext, -1) == 1;

      X509_EXTENSION_free (ext);
      if (!ok)
        return false;
    }
  return true;
}

/* What all certificates share: version, serial, subject, dates, key, issuer's name. */
static bool
fill_common (X509 *cert, X509 *issuer, EVP_PKEY *key, const char *common_name, int64_t now_ms, int64_t not_after_ms)
{
  return X509_set_version (cert, X509_VERSION_3) == 1 && set_serial (cert) && set_subject (cert, common_name)
         && set_dates (cert, now_ms, not_after_ms) && X509_set_pubkey (cert, key) == 1
         && X509_set_issuer_name (cert, X509_get_subject_name (issuer)) == 1;
}

static char *
bio_take_text (BIO *bio)
{
  char *data;
  long len = BIO_get_mem_data (bio, &data);

  return len > 0 ? xstrndup (data, (size_t) len) : NULL;
}

static int
write_pair (struct pki_pair *out, X509 *cert, EVP_PKEY *key, struct error *err)
{
  struct pki_pair pair = { 0 };
  BIO *cert_bio = BIO_new (BIO_s_mem ());
  BIO *key_bio = BIO_new (BIO_s_secmem ());

  if (cert_bio != NULL && key_bio != NULL && PEM_write_bio_X509 (cert_bio, cert) == 1
      && PEM_write_bio_PrivateKey (key_bio, key, NULL, NULL, 0, NULL, NULL) == 1)
    pair = (struct pki_pair){ .cert_pem = bio_take_text (cert_bio), .key_pem = bio_take_text (key_bio) };
  BIO_free (cert_bio);
  BIO_free (key_bio);
  if (pair.cert_pem == NULL || pair.key_pem == NULL)
    {
      pki_pair_free (&pair);
      return pki_openssl_error (err, EIO, "cannot write the new certificate as PEM");
    }
  *out = pair;
  return 0;
}

int
pki_make_ca (struct pki_pair *out, const char *common_name, int64_t now_ms, int64_t valid_ms, struct error *err)
{
  cleanup_pkey EVP_PKEY *key = NULL;
  cleanup_x509 X509 *cert = NULL;

  if (valid_ms <= 0)
    return error_set (err, EINVAL, "a CA must be valid for some time, but its validity is %lld ms",
                      (long long) valid_ms);
  key = EVP_EC_gen ("P-256");
  cert = X509_new ();
  if (key == NULL || cert == NULL || !fill_common (cert, cert, key, common_name, now_ms, now_ms + valid_ms)
      || !add_extensions (cert, cert, ca_extensions, ARRAY_LEN (ca_extensions))
      || X509_sign (cert, key, EVP_sha256 ()) == 0)
    return pki_openssl_error (err, EIO, "cannot make a CA certificate");
  return write_pair (out, cert, key, err);
}

static ASN1_STRING *
name_value (const char *name, int *type)
{
  ASN1_STRING *value;

  *type = pki_is_ip (name) ? GEN_IPADD : GEN_DNS;
  if (*type == GEN_IPADD)
    return a2i_IPADDRESS (name);
  value = ASN1_IA5STRING_new ();
  if (value != NULL && ASN1_STRING_set (value, name, -1) != 1)
    {
      ASN1_STRING_free (value);
      return NULL;
    }
  return value;
}

static bool
push_name (GENERAL_NAMES *list, const char *name)
{
  int type;
  ASN1_STRING *value = name_value (name, &type);
  GENERAL_NAME *entry = value != NULL ? GENERAL_NAME_new () : NULL;

  if (entry == NULL)
    {
      ASN1_STRING_free (value);
      return false;
    }
  GENERAL_NAME_set0_value (entry, type, value);
  if (sk_GENERAL_NAME_push (list, entry) > 0)
    return true;
  GENERAL_NAME_free (entry);
  return false;
}

int
pki_check_names (const char *const *names, size_t nnames, struct error *err)
{
  if (nnames == 0)
    return error_set (err, EINVAL, "a serving certificate needs at least one DNS name or IP address");
  for (size_t i = 0; i < nnames; i++)
    if (!pki_is_ip (names[i]) && !text_is_dns1123_subdomain (names[i]))
      return error_set (
          err, EINVAL,
          "\"%s\" is neither a DNS name nor an IP address; a serving certificate can be made for those only", names[i]);
  return 0;
}

static bool
add_names (X509 *cert, const char *const *names, size_t nnames)
{
  cleanup_names GENERAL_NAMES *list = GENERAL_NAMES_new ();

  if (list == NULL)
    return false;
  for (size_t i = 0; i < nnames; i++)
    if (!push_name (list, names[i]))
      return false;
  return X509_add1_ext_i2d (cert, NID_subject_alt_name, list, 0, X509V3_ADD_DEFAULT) == 1;
}

static int
sign_serving (struct pki_pair *out, X509 *issuer, EVP_PKEY *issuer_key, const char *const *names, size_t nnames,
              int64_t now_ms, int64_t not_after_ms, struct error *err)
{
  cleanup_pkey EVP_PKEY *key = EVP_EC_gen ("P-256");
  cleanup_x509 X509 *cert = X509_new ();

  if (key == NULL || cert == NULL || !fill_common (cert, issuer, key, SERVING_COMMON_NAME, now_ms, not_after_ms)
      || !add_extensions (cert, issuer, serving_extensions, ARRAY_LEN (serving_extensions))
      || !add_names (cert, names, nnames) || X509_sign (cert, issuer_key, EVP_sha256 ()) == 0)
    return pki_openssl_error (err, EIO, "cannot make a serving certificate");
  return write_pair (out, cert, key, err);
}

int
pki_make_serving (struct pki_pair *out, const struct pki_pair *ca, const char *const *names, size_t nnames,
                  int64_t now_ms, int64_t valid_ms, struct error *err)
{
  cleanup_x509 X509 *issuer = NULL;
  cleanup_pkey EVP_PKEY *issuer_key = NULL;
  struct pki_info info;
  int ret = pki_check_names (names, nnames, err);

  if (ret < 0)
    return ret;
  ret = pki_check_pair (ca, err);
  if (ret < 0)
    return error_wrap (err, ret, "cannot sign with the CA");
  ret = pki_info (&info, ca->cert_pem, err);
  if (ret < 0)
    return ret;
  if (valid_ms <= 0 || info.not_after_ms <= now_ms)
    return error_set (err, EINVAL, "the serving certificate would be over before it begins (validity %lld ms, CA %s)",
                      (long long) valid_ms, info.not_after_ms <= now_ms ? "expired" : "in force");
  issuer = pki_load_cert (ca->cert_pem, err);
  issuer_key = pki_load_key (ca->key_pem, err);
  if (issuer == NULL || issuer_key == NULL)
    return -EINVAL;
  if (info.not_after_ms > now_ms + valid_ms)
    info.not_after_ms = now_ms + valid_ms;
  return sign_serving (out, issuer, issuer_key, names, nnames, now_ms, info.not_after_ms, err);
}
