"""`python -m croq_magic.kernel -f CONNECTION_FILE`: what the kernelspec starts."""

from ipykernel.kernelapp import IPKernelApp

from croq_magic.kernel.kernel import CroqtileKernel

if __name__ == "__main__":
    IPKernelApp.launch_instance(kernel_class=CroqtileKernel)
