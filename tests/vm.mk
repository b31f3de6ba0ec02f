# SPDX-License-Identifier: BSD-2-Clause
# `make check-vm`: tests under other kernels, in an emulated machine (tests/check-vm).

# All of them; those for arm64 are called 6.1-arm64 and so on.
KERNEL ?=

.PHONY: check-vm
check-vm:
	$(Q)$(MAKE) --no-print-directory check-build
	$(Q)O='$(O)' T='$(T)' tests/check-vm $(subst |, ,$(KERNEL))
