/* The book of a group's places: which one is next, and what a Lease remembers. */
#include "test_tpu_pods.h"

#include "admission/places.h"

/* A book from text: "0.0L 0.1R 1.0X 1.1r" are a live pod, a reservation until 1000, a pod that leaves and came
 * with one until 1000, and a reservation until 1500. */
static struct places
book (int64_t hosts, int64_t replicas, const char *entries)
{
  struct places p = { .hosts = hosts, .replicas = replicas };
  int replica, host, used;
  char holder;

  while (sscanf (entries, " %d.%d%c%n", &replica, &host, &holder, &used) == 3)
    {
      enum place_holder kind = holder == 'L' ? PLACE_LIVE : holder == 'X' ? PLACE_LEAVING : PLACE_RESERVED;

      places_note (&p, (struct place){ replica, host }, kind, holder == 'r' ? 1500 : 1000);
      entries += used;
    }
  return p;
}

static void
the_next_place (void **state)
{
  static const struct
  {
    const char *name;
    int hosts, replicas;
    const char *entries, *next; /* the next places in order, then "again" for -EAGAIN or "full" for -ENOSPC */
  } cases[] = {
    { "a new group is filled slice by slice", 2, 2, "", "0.0 0.1 1.0 1.1 again" },
    { "a slice that is begun is completed first", 2, 3, "0.0L 0.1L 1.1L", "1.0 2.0 2.1 again" },
    { "also when a lower one is free", 4, 2, "1.0L 1.1L 1.3L", "1.2 0.0" },
    { "reservations count like pods", 2, 2, "0.0R 0.1L", "1.0 1.1 again" },
    { "all taken by pods", 2, 1, "0.0L 0.1L", "full" },
    { "all taken, some by a reservation", 2, 1, "0.0R 0.1L", "again" },
    { "a pod that leaves gives its place away", 4, 1, "0.0L 0.1X 0.2L 0.3L", "0.1 again" },
    { "but a place nobody has goes first", 4, 1, "0.0L 0.1X 0.2L", "0.3 0.1 again" },
    { "a new slice avoids the index of one that leaves", 2, 3, "0.0X 0.1X 1.0L 1.1L", "2.0 2.1 0.0 0.1 again" },
    { "unless no other index below the number of slices is left", 2, 2, "0.0X 0.1X 1.0L 1.1L", "0.0 0.1 again" },
    { "a whole group that leaves is replaced index by index", 2, 2, "0.0X 0.1X 1.0X 1.1X", "0.0 0.1 1.0 1.1 again" },
    { "more slices than wanted", 2, 1, "0.0L 0.1L 1.0L 1.1L", "full" },
    { "a hole in a slice beyond the wanted ones is still filled", 2, 1, "3.1L", "3.0 again" },
    { "survivors keep their index, new slices take the low ones", 2, 3, "0.0L 0.1L 2.0L 2.1L", "1.0 1.1 again" },
    { "no slices wanted", 2, 0, "", "full" },
    { "hosts beyond the slice are another topology's", 2, 1, "0.2L 0.3L", "0.0 0.1 again" },
    { "and are no hosts that leave", 2, 1, "0.0L 0.1X 0.2L 0.5R", "0.1 again" },
    { "nor slices that leave", 2, 1, "0.3X 1.2L", "0.0 0.1 again" },
    { "twice the same place: the pod counts", 2, 1, "0.0R 0.0L 0.1L 0.1R", "full" },
    { "a reservation whose own pod leaves is used up", 2, 1, "0.0L 0.1R 0.1X", "0.1 again" },
    { "in whatever order they are found", 2, 1, "0.0L 0.1X 0.1R", "0.1 again" },
    { "one for the successor of the pod that leaves", 2, 1, "0.0L 0.1X 0.1r", "again" },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      cleanup_places struct places p = book (cases[i].hosts, cases[i].replicas, cases[i].entries);
      cleanup_free char *words = xstrdup (cases[i].next);
      char *rest = NULL;

      for (char *word = strtok_r (words, " ", &rest); word != NULL; word = strtok_r (NULL, " ", &rest))
        {
          struct place_entry got;
          int ret = places_take (&p, 2000, &got);
          char text[48];

          snprintf (text, sizeof (text), "%d.%d", (int) got.place.replica, (int) got.place.host);
          if (!text_eq (word, ret == -EAGAIN ? "again" : ret == -ENOSPC ? "full" : text))
            fail_msg ("%s: got %s (%d), expected %s", cases[i].name, text, ret, word);
        }
    }
}

static void
reservations_are_kept_and_pods_are_not (void **state)
{
  cleanup_places struct places p = book (4, 2, "0.0L 0.1R 0.2X 1.3R 1.3L"), again = { .hosts = 4, .replicas = 2 };
  cleanup_free char *text = NULL, *second = NULL;
  struct place_entry got;

  (void) state;
  assert_int_equal (places_take (&p, 2000, &got), 0);
  text = places_print (&p);
  assert_string_equal (text, "{\"0.1\":1000,\"0.3\":2000}");
  assert_int_equal (places_read (&again, text, 1000, NULL), 0); /* what expires now is gone */
  second = places_print (&again);
  assert_string_equal (second, "{\"0.3\":2000}");
}

/* A Pod of another shape, admitted between two others, must not make room for a third. */
static void
a_reader_with_fewer_hosts_keeps_what_is_reserved (void **state)
{
  cleanup_places struct places fewer = { .hosts = 2, .replicas = 2 };
  cleanup_free char *text = NULL;

  (void) state;
  assert_int_equal (places_read (&fewer, "{\"0.1\":1000,\"0.3\":2000}", 0, NULL), 0);
  text = places_print (&fewer);
  assert_string_equal (text, "{\"0.1\":1000,\"0.3\":2000}");
}

static void
text_that_is_no_list_of_reservations_is_refused (void **state)
{
  static const char *const texts[] = {
    "",
    "[]",
    "3",
    "{\"0\":1}",
    "{\"0.\":1}",
    "{\".0\":1}",
    "{\"-1.0\":9}",
    "{\"0.1\":\"x\"}",
    "{\"0.1\":1.5}",
    "{\"0.1.2\":1}",
    "{\"99999999999.0\":1}",
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (texts); i++)
    {
      cleanup_places struct places p = { .hosts = 4, .replicas = 2 };
      struct error err = { "" };

      if (places_read (&p, texts[i], 0, &err) != -EINVAL || err.message[0] == '\0')
        fail_msg ("%s was read", texts[i]);
    }
}

/* Whatever comes and goes, a place is never given twice, and what is there fills whole slices. */
static void
no_history_gives_a_place_twice (void **state)
{
  (void) state;
  for (unsigned int seed = 1; seed <= 200; seed++)
    {
      unsigned int r = seed;
      int hosts = 2 + (int) (seed % 3), replicas = 1 + (int) (seed % 4), total = hosts * replicas, there = 0;
      bool *taken = xcalloc ((size_t) total, sizeof (*taken));

      for (int step = 0; step < 300; step++)
        {
          cleanup_places struct places p = { .hosts = hosts, .replicas = replicas };
          struct place_entry got;
          int victim = rand_r (&r) % total, ret;

          if (rand_r (&r) % 3 == 0)
            {
              there -= taken[victim];
              taken[victim] = false;
              continue;
            }
          for (int i = 0; i < total; i++)
            if (taken[i])
              places_note (&p, (struct place){ i / hosts, i % hosts }, rand_r (&r) % 2 ? PLACE_LIVE : PLACE_RESERVED,
                           1);
          ret = places_take (&p, 1, &got);
          if (there == total)
            {
              assert_true (ret == -EAGAIN || ret == -ENOSPC);
              continue;
            }
          assert_int_equal (ret, 0);
          assert_in_range (got.place.replica, 0, replicas - 1);
          assert_false (taken[got.place.replica * hosts + got.place.host]);
          taken[got.place.replica * hosts + got.place.host] = true;
          there++;
        }
      free (taken);
    }
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (the_next_place),
    cmocka_unit_test (reservations_are_kept_and_pods_are_not),
    cmocka_unit_test (a_reader_with_fewer_hosts_keeps_what_is_reserved),
    cmocka_unit_test (text_that_is_no_list_of_reservations_is_refused),
    cmocka_unit_test (no_history_gives_a_place_twice),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
