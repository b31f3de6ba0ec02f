# SPDX-License-Identifier: BSD-2-Clause
# `make arm64` builds for arm64 into $(O)/arm64, `make check-arm64` also runs the unit tests
# under an emulator (tests/check-arm64).

.PHONY: arm64 check-arm64 arm64-program arm64-units arm64-fixtures
arm64:
	$(Q)O='$(O)' tests/check-arm64 --build
check-arm64:
	$(Q)O='$(O)' T='$(T)' tests/check-arm64

arm64-program: $(PROG)
arm64-units: $(UNIT_BIN)
arm64-fixtures: fixtures $(GPU_LIB)
