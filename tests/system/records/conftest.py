from record_fixtures import log_path, make_record

__all__ = ["log_path", "make_record"]
