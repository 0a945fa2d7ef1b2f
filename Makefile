# ray-tpu-operator - see README.md. The two commands people need are `make demo` and `make test`.
#
#   deps         install missing Debian packages (scripts/deps.sh; nothing when all are present)
#   all          build/ray-tpu-operator and build/raytpu
#   demo         the tutorial on a real control plane on this machine
#   test         everything: unit tests, also under ASan+UBSan and TSan, and integration tests on a real control plane
#   unit         unit tests alone          asan, tsan   the same under sanitizers
#   integration  pytest against a real kube-apiserver and etcd; integration-asan: with sanitizers in our programs
#   faults       puts each fault that users of KubeRay complained about back, and shows that a test fails (takes half an hour)
#   check        clang-format, clang-tidy, cppcheck, generated files up to date
#   bench        side-by-side measurements, printed as ratios
#   fuzz         FUZZ_SECONDS=60 per target (needs clang)
#   install      DESTDIR and PREFIX are honoured

VERSION := 0.1.0
PREFIX ?= /usr/local
BUILD ?= build
CC ?= gcc
PYTHON ?= /usr/bin/python3

comma := ,
CFLAGS ?= -O2 -g
WARN := -Wall -Wextra -Werror -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes
ALL_CFLAGS := -std=gnu11 -D_GNU_SOURCE -DVERSION='"$(VERSION)"' -Ipkg -pthread -fstack-protector-strong $(WARN) $(CFLAGS) $(SAN)
LDFLAGS ?= -Wl,-z,relro,-z,now -Wl,--as-needed
ALL_LDFLAGS := -pthread $(LDFLAGS) $(SAN)
OPERATOR_LIBS := -lcurl -lmicrohttpd -lgnutls -lssl -lcrypto -lcjson -lyaml -lm
RAYTPU_LIBS := -lcjson -lyaml -lm

PKG_SRC := $(wildcard pkg/*/*.c)
PKG_OBJ := $(PKG_SRC:%.c=$(BUILD)/obj/%.o)
LIB := $(BUILD)/libraytpu.a
OPERATOR_OBJ := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard cmd/ray-tpu-operator/*.c))
RAYTPU_OBJ := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard cmd/raytpu/*.c))

UNIT_SRC := $(wildcard tests/unit/test_*.c) $(wildcard tests/sim/test_*.c)
UNIT_HELP_OBJ := $(patsubst %.c,$(BUILD)/obj/%.o,$(filter-out $(UNIT_SRC),$(wildcard tests/unit/*.c)))
SIM_HELP_OBJ := $(patsubst %.c,$(BUILD)/obj/%.o,$(filter-out $(UNIT_SRC),$(wildcard tests/sim/*.c)))
# The simulation is in the way of these calls (tests/sim/link.c).
SIM_WRAP := $(patsubst %,-Wl$(comma)--wrap=%,clock_mono_ms clock_mono_us clock_wall_ms ray_plan_make ray_plan_hold \
  ray_teardown_next kube_queue_retry)
UNIT_BIN := $(UNIT_SRC:tests/%.c=$(BUILD)/tests/%)
# The simulation has one thread: there is nothing in it for TSan to see, and it would take minutes.
ifneq ($(findstring thread,$(SAN)),)
UNIT_BIN := $(filter-out $(BUILD)/tests/sim/%,$(UNIT_BIN))
endif
TEST_CFLAGS := -DTEST_FIXTURES='"$(abspath tests/fixtures)"' -Itests/unit

BENCH_BIN := $(patsubst tests/bench/%.c,$(BUILD)/bench/%,$(wildcard tests/bench/bench_*.c))
FUZZ_BIN := $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
C_FILES := $(wildcard pkg/*/*.[ch] cmd/*/*.[ch] tests/*/*.[ch])

.PHONY: all deps integration-asan unit-build bench-build demo test unit integration asan tsan faults check bench fuzz install clean
.DELETE_ON_ERROR:
.SECONDARY:

all: $(BUILD)/ray-tpu-operator $(BUILD)/raytpu

$(BUILD)/ray-tpu-operator: $(OPERATOR_OBJ) $(LIB)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ $(OPERATOR_LIBS)

$(BUILD)/raytpu: $(RAYTPU_OBJ) $(LIB)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ $(RAYTPU_LIBS)

$(LIB): $(PKG_OBJ)
	@rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/obj/tests/%.o: tests/%.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(TEST_CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/obj/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

$(filter $(BUILD)/tests/unit/%,$(UNIT_BIN)): $(BUILD)/tests/%: $(BUILD)/obj/tests/%.o $(UNIT_HELP_OBJ) $(LIB)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka $(OPERATOR_LIBS)

# tests/sim defines what pkg/kube/client.c and informer.c do, so that these are not taken from the library.
$(filter $(BUILD)/tests/sim/%,$(UNIT_BIN)): $(BUILD)/tests/sim/%: $(BUILD)/obj/tests/sim/%.o $(SIM_HELP_OBJ) $(LIB)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) $(SIM_WRAP) -o $@ $^ -lcmocka $(OPERATOR_LIBS)

$(BUILD)/bench/%: $(BUILD)/obj/tests/bench/%.o $(LIB)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ $(OPERATOR_LIBS)

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)

deps:
	@scripts/deps.sh test

unit-build: $(UNIT_BIN)
bench-build: all $(BENCH_BIN)

unit: $(UNIT_BIN)
	@tests/run-unit.sh $(UNIT_BIN)

# Instrumentation hides value ranges from the compiler, so its guesses about truncation are off there.
asan:
	@$(MAKE) --no-print-directory unit BUILD=$(BUILD)/asan SAN='-fsanitize=address,undefined -fno-sanitize-recover=all' \
	  CFLAGS='-O1 -g -fno-omit-frame-pointer -Wno-format-truncation' LDFLAGS=

tsan:
	@$(MAKE) --no-print-directory unit BUILD=$(BUILD)/tsan SAN=-fsanitize=thread CFLAGS='-O1 -g -Wno-format-truncation' LDFLAGS=

integration: all
	@tests/run-pytest.sh tests/cli tests/integration tests/chart

# The integration tests with programs that end in an error when they leak or misuse memory.
integration-asan:
	@$(MAKE) --no-print-directory all BUILD=$(BUILD)/asan SAN='-fsanitize=address,undefined -fno-sanitize-recover=all' \
	  CFLAGS='-O1 -g -fno-omit-frame-pointer -Wno-format-truncation' LDFLAGS=
	@RAY_TPU_OPERATOR_BIN=$(abspath $(BUILD)/asan/ray-tpu-operator) RAYTPU_BIN=$(abspath $(BUILD)/asan/raytpu) \
	  tests/run-pytest.sh tests/cli tests/integration

test:
	@scripts/deps.sh test
	@tests/run.sh

demo:
	@scripts/deps.sh test
	@scripts/demo.sh

bench:
	@scripts/deps.sh test
	@$(MAKE) --no-print-directory bench-build
	@tests/bench/run.sh

faults: all
	@$(PYTHON) tests/faults/run.py $(FAULTS)

check:
	@scripts/deps.sh check && scripts/deps.sh test
	@scripts/check.sh

$(BUILD)/fuzz/%: tests/fuzz/%.c $(PKG_SRC)
	@mkdir -p $(@D)
	clang -std=gnu11 -D_GNU_SOURCE -DVERSION='"$(VERSION)"' -Ipkg -g -O1 -fsanitize=fuzzer,address,undefined -pthread -o $@ $^ $(OPERATOR_LIBS)

fuzz: $(FUZZ_BIN)
	@for f in $(FUZZ_BIN); do echo "== $$f"; mkdir -p $$f.corpus; $$f -max_total_time=$${FUZZ_SECONDS:-60} -timeout=10 $$f.corpus || exit 1; done

install: all
	install -D -m 755 $(BUILD)/ray-tpu-operator $(DESTDIR)$(PREFIX)/bin/ray-tpu-operator
	install -D -m 755 $(BUILD)/raytpu $(DESTDIR)$(PREFIX)/bin/raytpu
	ln -sf raytpu $(DESTDIR)$(PREFIX)/bin/kubectl-raytpu

clean:
	rm -rf $(BUILD)
