/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * USDT probes of an ELF file: the notes that sys/sdt.h leaves in .note.stapsdt (SystemTap's
 * "UserSpaceProbeImplementation"), and where their arguments are while a probe is hit.
 */
#ifndef FUNCSNOOP_ELF_USDT_H
#define FUNCSNOOP_ELF_USDT_H

#include <stddef.h>
#include <stdint.h>

#include "elf/elf_file.h"

#define USDT_MAX_ARGS 12 /* as many as sys/sdt.h has */

enum usdt_arg_kind {
	USDT_ARG_UNKNOWN, /* said in a way that is not understood: no value */
	USDT_ARG_CONST,   /* .offset is the value */
	USDT_ARG_REG,     /* register .reg */
	USDT_ARG_MEM,     /* .size bytes at .reg + .offset + (.index << .shift) */
};

#define USDT_NO_REG 0xff

/*
 * Registers are numbered by their word in what a program gets: struct pt_regs on x86-64
 * (arch/x86/include/asm/ptrace.h: r15 is 0, rsp 19), struct user_pt_regs on arm64 (x0 is 0,
 * sp 31).
 */
struct usdt_arg {
	uint8_t kind;  /* enum usdt_arg_kind */
	uint8_t size;  /* bytes: 1, 2, 4 or 8 */
	uint8_t reg;   /* USDT_NO_REG: none */
	uint8_t index; /* USDT_NO_REG: none */
	uint8_t shift; /* 0 to 3 */
	bool is_signed;
	int64_t offset;
};

/* A place in code where a probe is hit; a probe may have several, with other arguments each. */
struct usdt_site {
	const char *provider, *name; /* valid UTF-8 without control characters or spaces */
	uint64_t addr;               /* virtual address in the file */
	uint64_t offset;             /* in the file, of code */
	uint64_t semaphore;          /* file offset of its 16-bit counter; 0: none */
	struct usdt_arg args[USDT_MAX_ARGS];
	unsigned int arg_cnt;
};

struct usdt_sites {
	struct usdt_site *sites; /* sorted by provider, name, address; none twice */
	size_t cnt;
	size_t refused; /* notes that are damaged, or lead to no code of the file */
	char *names;    /* what provider and name point into */
};

/* All of @f: none is no error. -ENOMEM only. *ret ends by usdt_sites_done(). */
_must_check_ int usdt_sites_read(
	const struct elf_file *f, struct usdt_sites *ret, struct err *err);
void usdt_sites_done(struct usdt_sites *s);

/*
 * The arguments that @text ("-4@%edi 8@-16(%rbp)", as gas wrote it for @arch) says, at most
 * USDT_MAX_ARGS; returns how many. What is not understood is an argument of unknown kind.
 */
unsigned int usdt_args_parse(
	const char *text, enum plan_arch arch, struct usdt_arg ret_args[USDT_MAX_ARGS]);

#endif
