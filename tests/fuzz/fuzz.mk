# SPDX-License-Identifier: BSD-2-Clause
# Fuzzing, with clang's libFuzzer.  Included by the GNUmakefile.
#
#	make fuzz			every tests/fuzz/NAME_fuzz.c, FUZZ_SECONDS (60) each
#	make fuzz FUZZ='elf plan'	some of them
#
# What is found is kept in tests/fuzz/found/NAME, and tests/unit/*/fuzz_NAME_test.c gives it to
# the target again in every `make check`.  The corpus begins with what tests/fuzz/seed makes
# and with all findings; it grows in $(O)/fuzz/corpus/NAME.

FUZZ_SECONDS ?= 60
FUZZ_TIMEOUT ?= 10
FUZZ_NAMES := $(patsubst tests/fuzz/%_fuzz.c,%,$(sort $(wildcard tests/fuzz/*_fuzz.c)))
FUZZ ?= $(FUZZ_NAMES)

# The library is built anew, into a folder of its own, by a make of its own.
.PHONY: fuzz fuzz-build fuzz-all $(FUZZ_NAMES:%=fuzz-run-%)
fuzz fuzz-build:
	$(Q)$(MAKE) --no-print-directory O=$(O)/fuzz CC=$(CLANG) \
		SANITIZE=fuzzer-no-link,address,undefined $(if $(filter fuzz,$@),fuzz-all,fuzz-bins)
fuzz-all: $(FUZZ:%=fuzz-run-%)
.PHONY: fuzz-bins
fuzz-bins: $(FUZZ:%=$(O)/tests/fuzz/%_fuzz)

$(O)/tests/fuzz/%_fuzz: tests/fuzz/%_fuzz.c $(LIB) GNUmakefile
	$(call say,FUZZ,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -fsanitize=fuzzer $(TEST_INC) -MMD -MP -MT $@ $< $(LIB) \
		$(LDFLAGS) $(PKG_LIBS) -lpthread -o $@

# libFuzzer takes the first folder as its own and only reads the others.
FUZZ_DIRS = $(O)/corpus/$* $(O)/seeds/$* $(wildcard tests/fuzz/found/$*)

$(FUZZ_NAMES:%=fuzz-run-%): fuzz-run-%: $(O)/tests/fuzz/%_fuzz $(O)/seeds/%
	$(call say,RUN,$* ($(FUZZ_SECONDS) s))
	$(Q)mkdir -p $(O)/corpus/$* tests/fuzz/found/$*
	$(Q)ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 \
		UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 $< \
		-max_total_time=$(FUZZ_SECONDS) -timeout=$(FUZZ_TIMEOUT) -rss_limit_mb=2048 \
		-artifact_prefix=tests/fuzz/found/$*/ -print_final_stats=1 \
		$(if $(wildcard tests/fuzz/$*.dict),-dict=tests/fuzz/$*.dict) \
		$(FUZZ_MAX_LEN_$*:%=-max_len=%) $(FUZZ_DIRS) >$(O)/$*.log 2>&1 || \
		{ tail -n 60 $(O)/$*.log; exit 1; }
	$(Q)grep -hE '^(Done|stat::(number_of_executed|new_units))' $(O)/$*.log
	$(Q)rmdir tests/fuzz/found/$* 2>/dev/null || true

FUZZ_MAX_LEN_config := 4096
FUZZ_MAX_LEN_pattern := 400
FUZZ_MAX_LEN_types := 4096
FUZZ_MAX_LEN_saved := 4096
FUZZ_MAX_LEN_http := 9000
FUZZ_MAX_LEN_plan := 2048
FUZZ_MAX_LEN_flow := 1024
FUZZ_MAX_LEN_elf := 32768
FUZZ_MAX_LEN_unwind := 32768
FUZZ_MAX_LEN_cfi := 32768
FUZZ_MAX_LEN_dwarf := 65536

$(O)/seeds/%: tests/fuzz/seed tests/fuzz/tiny.c $(wildcard tests/fuzz/seeds/*) \
	$(wildcard $(FIXSRC)/asm*)
	$(call say,SEEDS,$@)
	$(Q)tests/fuzz/seed $* $@
