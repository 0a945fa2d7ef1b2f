/* inspect.c - reading certificates: dates, names, who signed, whose key. */
#include "pki/pki_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

int
pki_openssl_error (struct error *err, int code, const char *what)
{
  unsigned long first = ERR_get_error ();
  const char *reason = first != 0 ? ERR_reason_error_string (first) : NULL;

  ERR_clear_error ();
  return error_set (err, code, "%s: %s", what, reason ? reason : "no reason given");
}

static BIO *
text_bio (const char *pem)
{
  return BIO_new_mem_buf (pem, -1); /* NULL only when out of memory, which the callers report as unreadable */
}

X509 *
pki_load_cert (const char *pem, struct error *err)
{
  BIO *bio;
  X509 *cert;

  if (pem == NULL || pem[0] == '\0')
    {
      error_set (err, EINVAL, "the certificate is empty");
      return NULL;
    }
  bio = text_bio (pem);
  cert = bio != NULL ? PEM_read_bio_X509 (bio, NULL, NULL, NULL) : NULL;
  BIO_free (bio);
  if (cert == NULL)
    pki_openssl_error (err, EINVAL, "cannot read a PEM certificate");
  return cert;
}

/* Without it OpenSSL would ask for an encrypted key's passphrase on the terminal. */
static int
no_passphrase (char *buf, int size, int rwflag, void *data)
{
  (void) buf, (void) size, (void) rwflag, (void) data;
  return -1;
}

EVP_PKEY *
pki_load_key (const char *pem, struct error *err)
{
  BIO *bio;
  EVP_PKEY *key;

  if (pem == NULL || pem[0] == '\0')
    {
      error_set (err, EINVAL, "the private key is empty");
      return NULL;
    }
  bio = text_bio (pem);
  key = bio != NULL ? PEM_read_bio_PrivateKey (bio, NULL, no_passphrase, NULL) : NULL;
  BIO_free (bio);
  if (key == NULL)
    pki_openssl_error (err, EINVAL, "cannot read a PEM private key without passphrase");
  return key;
}

static int64_t
asn1_ms (const ASN1_TIME *t)
{
  struct tm tm;

  return ASN1_TIME_to_tm (t, &tm) == 1 ? (int64_t) timegm (&tm) * 1000 : 0;
}

static void
read_serial (char *out, size_t size, const X509 *cert)
{
  BIGNUM *number = ASN1_INTEGER_to_BN (X509_get0_serialNumber (cert), NULL);
  char *hex = number != NULL ? BN_bn2hex (number) : NULL;

  snprintf (out, size, "%s", hex ? hex : "");
  OPENSSL_free (hex);
  BN_free (number);
}

static void
read_subject (char *out, size_t size, const X509 *cert)
{
  BIO *bio = BIO_new (BIO_s_mem ());
  int len = 0;

  if (bio != NULL && X509_NAME_print_ex (bio, X509_get_subject_name (cert), 0, XN_FLAG_RFC2253) >= 0)
    len = BIO_read (bio, out, (int) size - 1);
  out[len > 0 ? len : 0] = '\0';
  BIO_free (bio);
}

int
pki_info (struct pki_info *info, const char *cert_pem, struct error *err)
{
  cleanup_x509 X509 *cert = pki_load_cert (cert_pem, err);

  memset (info, 0, sizeof (*info));
  if (cert == NULL)
    return -EINVAL;
  info->not_before_ms = asn1_ms (X509_get0_notBefore (cert));
  info->not_after_ms = asn1_ms (X509_get0_notAfter (cert));
  read_subject (info->subject, sizeof (info->subject), cert);
  read_serial (info->serial, sizeof (info->serial), cert);
  return 0;
}

int
pki_check_pair (const struct pki_pair *pair, struct error *err)
{
  cleanup_x509 X509 *cert = pki_load_cert (pair->cert_pem, err);
  cleanup_pkey EVP_PKEY *key = cert != NULL ? pki_load_key (pair->key_pem, err) : NULL;

  if (cert == NULL || key == NULL)
    return -EINVAL;
  if (X509_check_private_key (cert, key) == 1)
    return 0;
  ERR_clear_error ();
  return error_set (err, EINVAL, "the private key does not belong to the certificate");
}

bool
pki_is_ip (const char *name)
{
  unsigned char address[sizeof (struct in6_addr)];

  return inet_pton (AF_INET, name, address) == 1 || inet_pton (AF_INET6, name, address) == 1;
}

bool
pki_covers (const char *cert_pem, const char *name)
{
  cleanup_x509 X509 *cert = pki_load_cert (cert_pem, NULL);

  if (cert == NULL || name == NULL || name[0] == '\0')
    return false;
  if (pki_is_ip (name))
    return X509_check_ip_asc (cert, name, 0) == 1;
  return X509_check_host (cert, name, 0, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT, NULL) == 1;
}

bool
pki_signed_by (const char *cert_pem, const char *ca_pem)
{
  cleanup_x509 X509 *cert = pki_load_cert (cert_pem, NULL);
  cleanup_x509 X509 *ca = cert != NULL ? pki_load_cert (ca_pem, NULL) : NULL;
  EVP_PKEY *key = ca != NULL ? X509_get0_pubkey (ca) : NULL;
  bool signed_by;

  signed_by = key != NULL && X509_check_issued (ca, cert) == X509_V_OK && X509_verify (cert, key) == 1;
  ERR_clear_error ();
  return signed_by;
}
