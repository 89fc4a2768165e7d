"""What the driver for Hyper-V makes of free blocks of any size. It needs Hyper-V, so its function runs here alone.

Run with kernel/tests/run, which builds the kernel and names it in MEMHINT_KERNEL.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

import source

from lab.kernel_guest import manifest

# What the function needs of the kernel. The hypercall prints the ranges it is given.
AROUND = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdbool.h>
#include <stdlib.h>
typedef uint64_t u64;
union hv_gpa_page_range {
	u64 address_space;
	struct { u64 additional_pages:11; u64 largepage:1; u64 basepfn:52; } page;
	struct { u64 reserved:12; u64 page_size:1; u64 reserved1:8; u64 base_large_pfn:43; };
};
/* the first name of each is that of newer kernels */
struct hv_memory_hint { union { u64 heat_type; u64 type; }; u64 reserved; union hv_gpa_page_range ranges[]; };
struct scatterlist { unsigned int length; u64 page; };
struct page_reporting_dev_info { int unused; };
enum { PAGES = 32 };
static char area[sizeof(struct hv_memory_hint) + PAGES * sizeof(union hv_gpa_page_range)];
static void *hyperv_pcpu_input_arg = area;
static unsigned int page_reporting_order;
static const unsigned int pageblock_order = 9;
static int hv_hypercall_multi_failure;
#define this_cpu_ptr(p) (&(p))
#define local_irq_save(flags) ((flags) = 0)
#define local_irq_restore(flags) ((void)(flags))
#define WARN_ON_ONCE(x) ((void)(x))
#define pr_err(...) fprintf(stderr, __VA_ARGS__)
#define for_each_sg(sgl, sg, nents, i) for (i = 0, sg = (sgl); i < (int)(nents); i++, sg++)
#define sg_page(sg) ((sg)->page)
#define page_to_hvpfn(page) (page)
#define HV_HYP_PAGE_SIZE 4096
#define HV_MEMORY_HINT_MAX_GPA_PAGE_RANGES 511
#define HV_EXTMEM_HEAT_HINT_COLD_DISCARD 2
#define HV_EXT_MEMORY_HEAT_HINT_TYPE_COLD_DISCARD 2
#define HV_GPA_PAGE_RANGE_PAGE_SIZE_2MB 0
#define HV_EXT_CALL_MEMORY_HEAT_HINT 0
#define HV_HYPERCALL_RESULT_MASK 0xffff
#define HV_STATUS_SUCCESS 0
#define HV_STATUS_INVALID_PARAMETER 5
#define ENOSPC 28
#define EINVAL 22
#define hv_result(status) ((status) & 0xffff)
#define hv_result_success(status) (!hv_result(status))
static inline int get_order(unsigned long size)
{
	int order = 0;

	while ((4096UL << order) < size)
		order++;
	return order;
}
static u64 hv_do_rep_hypercall(int code, unsigned int nents, int size, struct hv_memory_hint *hint, void *out)
{
	for (unsigned int i = 0; i < nents; i++) {
		union hv_gpa_page_range *range = &hint->ranges[i];
		u64 unit = range->page.largepage ? 512 : 1;
		u64 first = range->page.largepage ? range->base_large_pfn * 512 : range->page.basepfn;

		printf("%llu %llu\n", (unsigned long long)first, (unsigned long long)(range->page.additional_pages + 1) * unit);
	}
	return code + size + (out != NULL);
}
"""
MAIN = r"""
int main(void)
{
	for (int order = 0; order <= 10; order++) {
		struct scatterlist sg = { 4096u << order, 1ull << 20 };

		if (hv_free_page_report(NULL, &sg, 1))
			return 1;
	}
	return 0;
}
"""


def test_each_block_is_discarded_as_it_is() -> None:
    built = manifest()
    driver = "drivers/hv/hv_balloon.c"
    tree = source.cache_dir() / "src" / built["source"]
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / driver
        copy.parent.mkdir(parents=True)
        copy.write_text((tree / driver).read_text())
        for patch in source.patches(built["source"].split("_")[0].rpartition("-")[2], built["series"]):
            if driver in source.touched(patch):
                only = re.search(rf"^diff --git a/{driver} .*?(?=^diff --git|\Z)", patch.read_text(), re.M | re.S)
                assert only
                subprocess.run(["patch", "-p1", "-s", "-d", scratch], input=only[0], text=True, check=True)
        text = copy.read_text()
        found = re.search(
            r"^(?:/\*[^/]*\*/\n)?(?:#define HV_\w+_REPORTING[^\n]*\n(?:[^\n]*ORDER\)\n)?)*"
            r"static int hv_free_page_report\(.*?^}\n",
            text,
            re.M | re.S,
        )
        assert found
        program = Path(scratch) / "program.c"
        program.write_text(AROUND + found[0] + MAIN)
        subprocess.run(["gcc", "-O1", "-w", "-o", f"{scratch}/program", program], check=True)
        said = subprocess.run([f"{scratch}/program"], capture_output=True, text=True, check=True).stdout
    assert said.split() == [word for order in range(11) for word in (str(1 << 20), str(1 << order))]
