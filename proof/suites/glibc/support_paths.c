/* Where glibc's tests lie and are installed: these need none of it. */
const char support_objdir_root[] = ".", support_srcdir_root[] = ".", support_bindir_prefix[] = "",
	   support_sbindir_prefix[] = "", support_install_rootsbindir[] = "", support_libdir_prefix[] = "",
	   support_complocaledir_prefix[] = "";
