"""The host kernel's interfaces, one small file each. The root of the file system is injectable; nothing is kept."""
