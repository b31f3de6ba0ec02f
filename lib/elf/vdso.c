// SPDX-License-Identifier: BSD-2-Clause
// The code that the kernel has mapped into this process, as into all others: vdso(7).
#include <errno.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "internal.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U /* since Linux 6.3, include/uapi/linux/memfd.h */
#endif

/* To the end of what is described last: segments, or sections behind them. */
static size_t image_size(const Elf64_Ehdr *image)
{
	const Elf64_Phdr *ph = (const void *)((const char *)image + image->e_phoff);
	size_t size = image->e_shoff + (size_t)image->e_shnum * image->e_shentsize;

	for (int i = 0; i < image->e_phnum; i++)
		if (ph[i].p_type == PT_LOAD && ph[i].p_offset + ph[i].p_filesz > size)
			size = ph[i].p_offset + ph[i].p_filesz;
	return size;
}

static int make_file(void)
{
	int fd = memfd_create("vdso", MFD_CLOEXEC | MFD_NOEXEC_SEAL);

	return fd < 0 ? memfd_create("vdso", MFD_CLOEXEC) : fd;
}

int elf_vdso_open(struct elf_file **ret_file, struct err *err)
{
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): it is what the kernel says */
	const Elf64_Ehdr *image = (const void *)getauxval(AT_SYSINFO_EHDR);
	_cleanup_close_ int fd = -1;
	int code;

	if (!image)
		return err_set(err, -ENOENT, "the kernel has mapped no code here");
	fd = make_file();
	code = fd < 0 ? -errno : file_write(fd, image, image_size(image));
	if (code)
		return err_sys(err, code, "cannot copy '%s'", ELF_VDSO);
	return elf_file_open_fd(TAKE_FD(fd), ELF_VDSO, -1, NULL, ret_file, err);
}
