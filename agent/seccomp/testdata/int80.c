// Calls the kernel through the 32-bit gate of a 64-bit program: getpid (20),
// which anybody may call, and unshare (310) of a user namespace, which
// the filter refuses by its 64-bit number. One line of raw results each.
#include <stdio.h>

static int gate(int number, int arg) {
	int result;
	__asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(arg) : "memory", "r8", "r9", "r10", "r11");
	return result;
}

int main(void) {
	printf("getpid %d\n", gate(20, 0) > 0 ? 1 : gate(20, 0));
	printf("unshare %d\n", gate(310, 0x10000000));
	return 0;
}
