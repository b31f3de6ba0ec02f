# SPDX-License-Identifier: BSD-2-Clause
# What tracing costs: `make bench`, B=REGEX for some rows, BENCH='--json --rounds N'.
# Included by the GNUmakefile.

B     ?=
BENCH ?=
BENCH_DIR := $(O)/tests/bench
BENCH_BIN := $(addprefix $(BENCH_DIR)/,work work-fp floor rounds summary hold spend switches)

# The workload is built like a user's program: without sanitizers, and with symbols.
# work-fp is for tools that follow frame pointers.
$(BENCH_DIR)/work-fp: BENCH_FLAGS := -fno-omit-frame-pointer
$(BENCH_DIR)/work $(BENCH_DIR)/work-fp: tests/bench/work.c GNUmakefile
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(FIX_CFLAGS) $(BENCH_FLAGS) -Ilib -MT $@ $< -lpthread -o $@

$(BENCH_DIR)/%: tests/bench/%.c $(LIB) GNUmakefile
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(TEST_INC) -MMD -MP -MT $@ $< $(LIB) $(LDFLAGS) \
		$(PKG_LIBS) -lm -o $@

.PHONY: bench
bench: $(PROG) $(BENCH_BIN) $(FIX)/events $(FIX)/call $(FIX)/libfix.so.1
	$(Q)O=$(O) tests/bench/run $(if $(B),--rows '$(B)') $(BENCH)
