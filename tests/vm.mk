# SPDX-License-Identifier: BSD-2-Clause
# `make check-vm`: tests under other kernels, in an emulated machine (tests/check-vm).

KERNEL ?= 6.1 6.12 7.2

.PHONY: check-vm
check-vm:
	$(Q)$(MAKE) --no-print-directory check-build
	$(Q)O='$(O)' T='$(T)' tests/check-vm $(subst |, ,$(KERNEL))
